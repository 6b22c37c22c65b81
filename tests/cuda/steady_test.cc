// Behaviour that only the test double of CUDA can show: the driver calls of a steady step, and the
// device after errors of the driver.
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "core/observe/timeline.h"
#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"
#include "tests/cuda_on_host/control.h"

namespace ringside {
namespace {

using cuda_on_host::counters;
using ::testing::AllOf;
using testing::complaint;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t megabyte = 1 << 20;

class CudaDriver : public OnGpu {
 protected:
  void TearDown() override {
    cuda_on_host::set_device_count(1);
    cuda_on_host::set_memory(1024 * megabyte);
  }
};

TEST_F(CudaDriver, IsAskedForNothingThatBlocksInASteadyStep) {
  const auto staging = device().staging();
  std::vector<float> host(5000, 1);
  const auto step = [&] {
    const Mark begin = device().mark();
    const Tensor sum = filled(5000, 0);
    for (int i = 0; i < 5; ++i) {
      const Tensor part = uploaded(host);
      device().kernels().add({.in = part, .out = sum});
    }
    const auto copy = staging->out(sum);
    copy->wait();
    const Tensor back = staging->in(copy->host());
    device().kernels().add({.in = back, .out = sum});
    const Mark end = device().mark();
    EXPECT_EQ(values_of(sum)[4999], 10);
    EXPECT_GT(device().seconds(begin, end), 0);
    device().synchronize();
  };
  for (int i = 0; i < 3; ++i) step();
  const auto before = counters();
  for (int i = 0; i < 20; ++i) step();
  const auto after = counters();
  EXPECT_EQ(after.launches - before.launches, 20 * 7);
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_EQ(after.host_mallocs, before.host_mallocs);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies);
  EXPECT_EQ(after.events, before.events);
  EXPECT_EQ(after.streams, before.streams);
}

TEST_F(CudaDriver, GrowsNothingWhileTheHostRunsAhead) {
  std::vector<float> host(5000, 1);
  const Tensor sum = filled(5000, 0);
  uploaded(host);
  const auto before = counters();
  {
    const Gate gate(device().compute_stream());
    for (int i = 0; i < 100; ++i) {
      const Tensor part = uploaded(host);
      device().kernels().add({.in = part, .out = sum});
      device().wait_on(device().compute_stream(), device().mark());
    }
  }
  const auto after = counters();
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_EQ(after.host_mallocs, before.host_mallocs);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_LE(after.events - before.events, 2);
  EXPECT_THAT(values_of(sum), Each(100));
}

TEST_F(CudaDriver, PinsMoreRatherThanUseWhatACopyStillFills) {
  const auto staging = device().staging();
  const Tensor tensor = filled(3 * 5000, 1);
  std::vector<std::byte*> blocks;
  {
    const Gate gate(device().compute_stream());
    for (int i = 0; i < 5; ++i) blocks.push_back(staging->out(tensor)->host().buffer()->data());
    std::sort(blocks.begin(), blocks.end());
    EXPECT_EQ(std::unique(blocks.begin(), blocks.end()), blocks.end());
  }
  device().synchronize();
  const auto before = counters().host_mallocs;
  for (int i = 0; i < 5; ++i) staging->out(tensor);
  EXPECT_EQ(counters().host_mallocs, before);
}

TEST_F(CudaDriver, GivesEventsOfMarksBack) {
  const auto mark_many = [&] {
    std::vector<Mark> marks;
    for (int i = 0; i < 50; ++i) marks.push_back(device().mark());
    for (std::size_t i = 0; i < marks.size(); i += 2) device().time(marks[i]);
    return marks;
  };
  std::vector<Mark> kept = mark_many();
  const auto before = counters().events;
  for (const auto& mark : kept) device().time(mark);
  kept = mark_many();  // uses the events of the first marks again
  EXPECT_LE(counters().events - before, 1);
  kept.clear();
  for (int i = 0; i < 10; ++i) mark_many();
  EXPECT_LE(counters().events - before, 1);
}

TEST_F(CudaDriver, AnchorsMarksAgainWithoutWaiting) {
  // The loop lasts longer than one anchor stays in use, so the anchor changes at least once. The
  // marks' times must not jump when it does, by more than an anchor is imprecise that was taken on
  // a busy machine.
  constexpr double precise_s = 1e-3;
  const double begin = device().clock().now();
  double last = begin - precise_s, now = begin;
  while (now < begin + 1.2) {
    const double before = device().clock().now();
    const Mark mark = device().mark();
    device().kernels().fill({.out = filled(1000, 0), .value = 1});
    const double time = device().time(mark);
    now = device().clock().now();
    ASSERT_GE(time, last - precise_s);
    ASSERT_GE(time, before - precise_s);
    ASSERT_LE(time, now + precise_s);
    last = time;
  }
}

TEST_F(CudaDriver, HasMemoryThatThePoolKeepsForOthers) {
  device().synchronize();
  const auto in_use = device().memory()->reserved + device().memory()->outside;
  cuda_on_host::set_memory(in_use + 64 * megabyte);
  filled(10 * megabyte, 1);  // 40 MiB, freed here, before the GPU has finished filling them
  const auto last_of = [&](const Tensor& tensor) {
    return values_of(tensor.range(tensor.count() - 1, 1))[0];
  };
  // 48 MiB: more than the pool's block of 40 MiB holds, and more than the GPU has left until the
  // pool gives that block back.
  EXPECT_EQ(last_of(filled(12 * megabyte, 2)), 2);
  EXPECT_THAT(
      complaint([&] { filled(20 * megabyte, 3); }),
      AllOf(HasSubstr("gpu 0: no memory for 83.9 MB of kind activation"), HasSubstr("free of")));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(last_of(filled(12 * megabyte, 4)), 4);
}

TEST_F(CudaDriver, CountsMemoryOfOthersApart) {
  device().synchronize();
  const auto before = *device().memory();
  void* theirs = nullptr;
  ASSERT_EQ(cudaMalloc(&theirs, 16 * megabyte), cudaSuccess);
  const auto with = *device().memory();
  cudaFree(theirs);
  EXPECT_EQ(with.outside - before.outside, 16 * megabyte);
  EXPECT_EQ(with.reserved, before.reserved);
}

TEST_F(CudaDriver, ErrorsNameTheCallAndTheCause) {
  const Tensor tensor = filled(100, 1);
  std::vector<std::byte> host(400);
  cuda_on_host::fail_next("cudaMemcpyAsync", cudaErrorInvalidValue);
  EXPECT_THAT(complaint([&] { device().write(tensor, host); }),
              HasSubstr("gpu 0: cudaMemcpyAsync: cudaErrorInvalidValue: "));
  cuda_on_host::fail_next("cudaEventQuery", cudaErrorIllegalAddress);
  EXPECT_THAT(complaint([&] { device().synchronize(); }),
              AllOf(HasSubstr("gpu 0: cudaEventQuery: cudaErrorIllegalAddress: "),
                    HasSubstr("run again with CUDA_LAUNCH_BLOCKING=1")));
  cuda_on_host::fail_next("cudaEventRecord", cudaErrorLaunchFailure);
  EXPECT_THAT(complaint([&] { device().mark(); }), HasSubstr("gpu 0: cudaEventRecord: "));
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_THAT(values_of(tensor), Each(1));
}

TEST_F(CudaDriver, WithoutGpusSaysWhatToDo) {
  cuda_on_host::fail_next("cudaGetDeviceCount", cudaErrorInsufficientDriver);
  EXPECT_THAT(cuda::look_at_machine().cause, HasSubstr("update the driver"));
  cuda_on_host::fail_next("cudaGetDeviceCount", cudaErrorSystemDriverMismatch);
  EXPECT_THAT(cuda::look_at_machine().cause,
              HasSubstr("cudaGetDeviceCount: cudaErrorSystemDriverMismatch: "));
  cuda_on_host::set_device_count(0);
  const auto machine = cuda::look_at_machine();
  EXPECT_TRUE(machine.built);
  EXPECT_THAT(machine.gpus, IsEmpty());
  EXPECT_THAT(machine.cause, HasSubstr("the NVIDIA driver sees no GPU"));
  EXPECT_THAT(complaint([] { cuda::make_cuda_device({}); }),
              HasSubstr("device.kind = 'cuda': the NVIDIA driver sees no GPU"));
}

TEST_F(CudaDriver, RunsOnTheGpuThatIsNamedFromAnyThread) {
  cuda_on_host::set_device_count(2);
  const auto second = cuda::make_cuda_device({.ordinal = 1});
  const Tensor tensor = second->tensor({100}, MemoryKind::data);
  std::thread([&] {  // a thread whose current device is the first
    second->kernels().fill({.out = tensor, .value = 5});
    const auto copy = second->staging()->out(tensor);
    copy->wait();
    EXPECT_THAT(copy->host().span<float>(), Each(5));
    EXPECT_GT(second->time(second->mark()), 0);
  })
      .join();
  EXPECT_EQ(second->ordinal(), 1);
  // The second GPU is this thread's current device, because this thread made `second`. filled()
  // must use the first GPU all the same.
  EXPECT_THAT(values_of(filled(10, 1)), Each(1));
}

TEST_F(CudaDriver, IsToldOfTheTimelinesSpans) {
  Timeline timeline(device());
  {
    const auto step = timeline.scope(Activity::compute, "step");
    const auto block = timeline.scope(Activity::compute, "forward block.3");
    EXPECT_THAT(cuda_on_host::open_ranges(), ElementsAre("step", "forward block.3"));
  }
  EXPECT_THAT(cuda_on_host::open_ranges(), IsEmpty());
}

TEST_F(CudaDriver, MayFailAtTheEndOfASpan) {
  Timeline timeline(device());
  {
    const auto span = timeline.scope(Activity::compute, "forward");
    cuda_on_host::fail_next("cudaEventRecord", cudaErrorLaunchFailure);
  }
  EXPECT_THAT(cuda_on_host::open_ranges(), IsEmpty());
  EXPECT_EQ(complaint([&] { device().mark(); }), "nothing");
}

}  // namespace
}  // namespace ringside
