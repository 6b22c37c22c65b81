// Marks of streams, the times of marks, and waits that end because a cuda::Watch throws.
#include <gmock/gmock.h>

#include <memory>

#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::Each;

/// Event times may differ from the host's clock by the time that enqueuing takes. A new anchor
/// (core/device/cuda/runtime/marks.h) corrects this difference, so the times of later marks may be
/// smaller by that much.
constexpr double tolerance_s = 10e-3;  // on a busy machine the host gets its core back late

class CudaMarks : public OnGpu {
 protected:
  /// A stream of the test's own.
  struct StreamDeleter {
    void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  };
  using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;
  static Stream make_stream() {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return Stream(stream);
  }
};

TEST_F(CudaMarks, LieWhereTheHostsClockSaysAndInOrder) {
  double last = 0;
  for (int i = 0; i < 50; ++i) {
    const double before = device().clock().now();
    const Mark mark = device().mark();
    const Tensor work = filled(1 << 14, 1);
    const Mark after = device().mark();
    const double time = device().time(mark);
    EXPECT_GE(time, last - tolerance_s);
    EXPECT_GE(time, before - tolerance_s);
    EXPECT_LE(time, device().time(after));
    EXPECT_GE(device().seconds(mark, after), 0);
    EXPECT_LE(device().time(after), device().clock().now() + tolerance_s);
    last = device().time(after);
    if (i % 10 == 0) device().synchronize();
  }
}

TEST_F(CudaMarks, AreReachedWhenTheStreamHasComeSoFar) {
  const Mark before = device().mark();
  device().synchronize();
  Gate gate(device().compute_stream());
  const Mark behind = device().mark();
  EXPECT_TRUE(device().reached(before));
  EXPECT_FALSE(device().reached(behind));
  const double opened = device().clock().now();
  gate.open();
  EXPECT_GE(device().time(behind), opened - tolerance_s);
  EXPECT_TRUE(device().reached(behind));
}

TEST_F(CudaMarks, HaveOneTimeHoweverOftenTheyAreAsked) {
  const Mark mark = device().mark();
  const Mark same = mark;
  const double time = device().time(mark);
  for (int i = 0; i < 10; ++i) {
    device().time(device().mark());  // may reuse the event of `mark`
    device().synchronize();
    EXPECT_EQ(device().time(same), time);
  }
}

TEST_F(CudaMarks, MayBeAskedInAnyOrder) {
  std::vector<Mark> marks;
  for (int i = 0; i < 100; ++i) {
    marks.push_back(device().mark());
    if (i % 30 == 7) device().synchronize();
  }
  std::vector<double> times(marks.size());
  for (std::size_t i = marks.size(); i-- > 0;) times[i] = device().time(marks[i]);
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i], times[i - 1] - tolerance_s);
}

TEST_F(CudaMarks, OfAMomentAreThatMoment) {
  const Mark moment{12.5};
  EXPECT_TRUE(device().reached(moment));
  EXPECT_EQ(device().time(moment), 12.5);
}

TEST_F(CudaMarks, HoldOtherStreams) {
  const auto other = make_stream();
  Gate gate(device().compute_stream());
  const Mark behind = device().mark();
  device().wait_on(other.get(), behind);
  const Mark held = device().mark_on(other.get());
  EXPECT_FALSE(device().reached(held));
  gate.open();
  EXPECT_GE(device().time(held), device().time(behind));
}

TEST_F(CudaMarks, OnceTheirTimeIsKnownHoldNothing) {
  const Mark past = device().mark();
  device().time(past);
  const auto other = make_stream();
  const Gate gate(device().compute_stream());
  device().wait_on(other.get(), past);
  device().wait_on(other.get(), Mark{1.0});
  device().time(device().mark_on(other.get()));  // returns although the compute stream stands still
}

/// The third call of check() throws, and this ends the wait that called check().
class Impatient final : public cuda::Watch {
 public:
  void check() override {
    if (++asked_ == 3) throw Error("enough");
  }

 private:
  int asked_ = 0;
};

TEST_F(CudaMarks, AreWaitedForUntilAWatchThrows) {
  const auto staging = device().staging();
  const Tensor large = device().tensor({8 << 20}, MemoryKind::data);
  Gate gate(device().compute_stream());
  const Tensor tensor = filled(5000, 4);
  const auto copy = staging->out(tensor);
  std::vector<float> host(5000);
  const std::vector<std::byte> much(large.bytes());
  const std::function<void()> waits[] = {
      [&] { device().synchronize(); }, [&] { device().time(device().mark()); },
      [&] { device().read(tensor, std::as_writable_bytes(std::span(host))); },
      [&] { copy->wait(); },
      [&] {  // `much` is larger than the pinned memory
        device().write(large, much);
      }};
  for (const auto& wait : waits) {
    Impatient watch;
    device().watch(watch);
    EXPECT_EQ(complaint(wait), "enough");
    device().unwatch(watch);
  }
  gate.open();
  device().synchronize();
  EXPECT_THAT(values_of(tensor), Each(4));
  copy->wait();
  EXPECT_THAT(copy->host().span<float>(), Each(4));
}

}  // namespace
}  // namespace ringside
