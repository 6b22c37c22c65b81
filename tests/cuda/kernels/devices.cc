// The GPU's kernels as plain C++ on the test double of what they use of CUDA.
#include "core/device/cuda/cuda.h"
#include "tests/device/harness.h"

namespace ringside {

std::vector<DeviceCase> devices_under_test() {
  return {{.name = "cuda_on_host",
           .make = []() -> std::unique_ptr<Device> { return cuda::make_cuda_device({}); },
           .layers = {DType::f32, DType::bf16, DType::f16}}};
}

}  // namespace ringside
