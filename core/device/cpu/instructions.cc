#include <dnnl.hpp>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"

namespace ringside {

std::string cpu_instructions() {
  const auto name = [](dnnl::cpu_isa isa) {
    switch (isa) {
      case dnnl::cpu_isa::sse41:
        return "SSE4.1";
      case dnnl::cpu_isa::avx:
        return "AVX";
      case dnnl::cpu_isa::avx2:
      case dnnl::cpu_isa::avx2_vnni:
        return "AVX2";
      case dnnl::cpu_isa::avx512_core:
      case dnnl::cpu_isa::avx512_core_vnni:
      case dnnl::cpu_isa::avx512_core_bf16:
        return "AVX-512";
      default:
        return "all instructions that it knows";  // newer than AVX-512, or no x86
    }
  };
  return fmt::format("vectors of {} bytes, oneDNN with {}", RINGSIDE_VECTOR_BYTES,
                     name(dnnl::get_effective_cpu_isa()));
}

}  // namespace ringside
