// Times of operations on a device that runs behind the host.
#include "core/device/timed_device.h"

#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"

namespace ringside {
namespace {

class TimesOfOperations : public OnGpu {
 protected:
  static std::unique_ptr<cuda::CudaDevice> made(cuda::CudaDevice*& out) {
    auto device = cuda::make_cuda_device({});
    out = device.get();
    return device;
  }
};

TEST_F(TimesOfOperations, AreTakenWithoutTheHostWaiting) {
  cuda::CudaDevice* gpu = nullptr;
  TimedDevice device(made(gpu));
  EXPECT_TRUE(device.runs_behind());
  EXPECT_TRUE(device.memory());
  const Tensor a = device.tensor({4096}, MemoryKind::activation);
  const Tensor b = device.tensor({4096}, MemoryKind::activation);
  device.kernels().fill({.out = a, .value = 1});
  device.synchronize();
  device.take_ops();
  const double begin = device.clock().now();
  device.pause();
  {
    Gate gate(gpu->compute_stream());
    device.kernels().copy({.in = a, .out = b});
    device.kernels().add({.in = a, .out = b});
    EXPECT_EQ(device.recorded(), 2u);
    gate.open();  // fails the test if the host has waited for the operations
  }
  const std::vector<TimedOp> ops = device.take_ops();
  const double passed = device.clock().now() - begin;
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].cost.bytes, 2 * 4 * 4096.0);
  EXPECT_EQ(ops[1].cost.bytes, 3 * 4 * 4096.0);
  double sum = 0;
  for (const TimedOp& op : ops) {
    EXPECT_GT(op.seconds, 0);
    EXPECT_EQ(op.before, 0) << "the host's time counts only where the device waited for it";
    sum += op.seconds;
  }
  // From pause() to the last end nothing is lost and nothing counts twice.
  EXPECT_LE(sum, passed);
  EXPECT_EQ(device.recorded(), 0u);
}

}  // namespace
}  // namespace ringside
