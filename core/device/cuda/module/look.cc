#include "core/device/cuda/module/look.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include "core/base/error.h"
#include "core/device/cuda/kernels/attention_cudnn.h"
#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {
namespace {

constexpr int least_major = 8;  // the kernels are built for 8.0 and newer

/// CUDA writes version 13.0 as 13000; cuBLASLt writes version 13.0.1 as 130001.
std::string cuda_version_text(int version) {
  return version == 0 ? "" : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}
std::string library_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string cause_of(cudaError_t status, int driver, int runtime) {
  if (driver == 0)
    return fmt::format(
        "no NVIDIA driver is loaded; install one that supports CUDA {} and check that nvidia-smi "
        "lists the GPU (a container must be started with access to GPUs)",
        cuda_version_text(runtime));
  if (status == cudaErrorInsufficientDriver)
    return fmt::format(
        "the NVIDIA driver supports CUDA {}, but this program needs {}; update the driver",
        cuda_version_text(driver), cuda_version_text(runtime));
  if (status == cudaErrorNoDevice)
    return "the NVIDIA driver sees no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES";
  return fmt::format("cudaGetDeviceCount: {}: {}; check nvidia-smi and the kernel's log",
                     cudaGetErrorName(status), cudaGetErrorString(status));
}

/// "GPU-01234567-89ab-cdef-0123-456789abcdef"
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string out = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || (i >= 4 && i <= 10 && i % 2 == 0)) out += '-';
    out += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return out;
}

Gpu describe(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return {properties.name,
          uuid_text(properties.uuid),
          properties.major,
          properties.minor,
          properties.multiProcessorCount,
          static_cast<std::int64_t>(properties.totalGlobalMem),
          properties.major >= least_major};
}

std::string too_old(const Gpu& gpu) {
  return fmt::format(
      "{} has compute capability {}.{}, but the kernels need at least {}.0; use a newer GPU "
      "(A100 or later)",
      gpu.name, gpu.major, gpu.minor, least_major);
}

}  // namespace

void look(Machine& out) {
  int driver = 0, runtime = 0, count = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  out.runtime = cuda_version_text(runtime);
  out.driver = cuda_version_text(driver);
  out.cublaslt = library_version_text(cublasLtGetVersion());
  out.cudnn = cudnn_version();

  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    out.cause = cause_of(status == cudaSuccess ? cudaErrorNoDevice : status, driver, runtime);
    return;
  }
  bool usable = false;
  for (int i = 0; i < count; ++i) {
    out.gpus.push_back(describe(i));
    usable = usable || out.gpus.back().usable;
  }
  if (!usable) out.cause = too_old(out.gpus.front());
}

Gpu look_at_gpu(int ordinal) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (ordinal < 0 || ordinal >= count)
    throw Error("gpu {} does not exist; this machine has {} GPUs, numbered from 0", ordinal, count);
  const Gpu gpu = describe(ordinal);
  if (!gpu.usable) throw Error("gpu {}: {}", ordinal, too_old(gpu));
  return gpu;
}

}  // namespace ringside::cuda
