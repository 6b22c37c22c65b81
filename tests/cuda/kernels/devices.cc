// The GPU's kernels, compiled as plain C++ with the test double of CUDA (tests/cuda_on_host).
#include "core/device/cuda/cuda.h"
#include "tests/device/harness.h"

namespace ringside {

std::vector<DeviceCase> devices_under_test() {
  return {{.name = "cuda_on_host",
           .make = []() -> std::unique_ptr<Device> { return cuda::make_cuda_device({}); },
           .layer_dtypes = {DType::f32, DType::bf16, DType::f16}}};
}

}  // namespace ringside
