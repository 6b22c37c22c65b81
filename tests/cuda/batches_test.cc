// Batches that are read ahead, on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "core/data/loader.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/cuda/fixture.h"
#include "tests/cuda/gate.h"
#include "tests/cuda_on_host/control.h"

namespace ringside {
namespace {

using cuda_on_host::counters;

constexpr std::int64_t sample_floats = 1 << 19, batch = 6;  // 12 MiB: more than pinned memory

/// Samples of 2 MiB. All values of a sample are its number. Tests can wait for the reading.
class LargeSamples : public Dataset {
 public:
  std::int64_t size() const override { return 10 * batch; }
  Shape input_shape() const override { return {sample_floats}; }
  DType input_dtype() const override { return DType::f32; }
  Shape target_shape() const override { return {1}; }
  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    auto* values = reinterpret_cast<float*>(input.data());
    std::fill(values, values + sample_floats, static_cast<float>(sample));
    target[0] = static_cast<std::int32_t>(sample);
    std::lock_guard lock(mutex_);
    ++read_;
    changed_.notify_all();
  }
  /// Blocks until `samples` samples have been read in all.
  void await_read(int samples) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_ >= samples; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int read_ = 0;
};

class CudaBatches : public OnGpu {
 protected:
  /// The last value of each sample.
  std::vector<float> ends_of(const Batch& of) const {
    std::vector<float> out;
    for (std::int64_t i = 1; i <= batch; ++i)
      out.push_back(values_of(of.inputs.range(i * sample_floats - 1, 1))[0]);
    return out;
  }
  std::vector<float> targets_of(const Batch& of) const {
    std::vector<std::int32_t> out(batch);
    device().read(of.targets, std::as_writable_bytes(std::span(out)));
    return {out.begin(), out.end()};
  }
  static BatchSlice slice(std::int64_t step) { return {step, 0, batch}; }

  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped()) loader_.emplace(data_, device(), batch, 1, Loader::Reading::ahead);
  }

  LargeSamples data_;
  std::optional<Loader> loader_;
};

TEST_F(CudaBatches, AreThereWhileComputeStandsStill) {
  const Tensor sum = filled(batch * sample_floats, 0);
  loader_->expect(slice(0));
  Gate gate(device().compute_stream());
  // Waits until the loader's thread has begun the batch. Otherwise read() would fill the batch on
  // this thread, with copies on the compute stream, which the gate holds up.
  data_.await_read(1);
  const Batch read = loader_->read(slice(0));
  device().kernels().add({.in = read.inputs, .out = sum});
  gate.open();
  EXPECT_EQ(ends_of(read), targets_of(read));
  EXPECT_EQ(ends_of({sum, {}}), targets_of(read));
}

TEST_F(CudaBatches, ThatHaveToWaitDelayNoOther) {
  Gate gate(device().compute_stream());
  loader_->expect(slice(0));  // its copies wait for compute, which may still use their target
  data_.await_read(5);        // 10 MiB: more than pinned memory holds
  const Tensor small = uploaded({1, 2, 3});
  const auto other = device().upload();
  gate.open();
  const Batch read = loader_->read(slice(0));
  EXPECT_EQ(ends_of(read), targets_of(read));
  EXPECT_EQ(values_of(small), (std::vector<float>{1, 2, 3}));
}

TEST_F(CudaBatches, HaveTheirSamplesInOrder) {
  const auto cpu = make_cpu_device(1);
  const Loader plain(data_, *cpu, batch, 1);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch read = loader_->read(slice(step));
    loader_->expect(slice(step + 1));
    const Tensor again = device().tensor(read.inputs.shape(), MemoryKind::activation);
    device().kernels().copy({.in = read.inputs, .out = again});
    const auto expected = plain.read(slice(step)).targets.span<std::int32_t>();
    const std::vector<float> numbers(expected.begin(), expected.end());
    EXPECT_EQ(ends_of({again, {}}), numbers);
    EXPECT_EQ(targets_of(read), numbers);
  }
}

TEST_F(CudaBatches, PinNothingInASteadyStep) {
  Batch read;
  const auto run = [&](std::int64_t step) {
    read = loader_->read(slice(step));
    loader_->expect(slice(step + 1));
    device().kernels().fill({.out = read.inputs, .value = -1});
    device().synchronize();
  };
  for (std::int64_t step = 0; step < 4; ++step) run(step);
  const auto before = counters();
  for (std::int64_t step = 4; step < 9; ++step) run(step);
  const auto after = counters();
  EXPECT_EQ(after.host_mallocs, before.host_mallocs);
  EXPECT_EQ(after.mallocs, before.mallocs);
  EXPECT_EQ(after.host_waits, before.host_waits);
  EXPECT_EQ(after.pageable_copies, before.pageable_copies);
  EXPECT_EQ(after.streams, before.streams);
  EXPECT_LE(after.events - before.events, 2);
}

TEST_F(CudaBatches, MayBeLetGoOfUnderWay) {
  for (std::int64_t step = 0; step < 3; ++step) loader_->expect(slice(step));
  data_.await_read(1);
  loader_.reset();
  const Tensor next = filled(batch * sample_floats, 5);
  EXPECT_EQ(values_of(next.range(0, 1))[0], 5);
  EXPECT_EQ(ends_of({next, {}}), std::vector<float>(batch, 5));
}

}  // namespace
}  // namespace ringside
