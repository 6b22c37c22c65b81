// The GPU of this machine, if it has one.
#include "core/device/cuda/cuda.h"
#include "tests/device/harness.h"

namespace ringside {

std::vector<DeviceCase> devices_under_test() {
  return {{.name = "gpu",
           .make = []() -> std::unique_ptr<Device> { return cuda::make_cuda_device({}); },
           .layer_dtypes = {DType::f32, DType::bf16, DType::f16},
           .plans_convolutions = true,
           .missing = [] { return cuda::look_at_machine().cause; }}};
}

}  // namespace ringside
