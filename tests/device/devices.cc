// The devices that every machine has.
#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/sim_device.h"
#include "tests/device/harness.h"
#include "tests/support/small_cluster.h"

namespace ringside {

std::vector<DeviceCase> devices_under_test() {
  return {{.name = "cpu",
           .make = [] { return make_cpu_device(1); },
           .layer_dtypes = {DType::f32, DType::bf16, DType::f16}},
          {.name = "cpu_two_threads", .make = [] { return make_cpu_device(2); }},
          {.name = "sim_with_numerics", .make = []() -> std::unique_ptr<Device> {
             return sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0},
                                         make_cpu_device(1));
           }}};
}

}  // namespace ringside
