#include "core/data/loader.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "core/data/synthetic.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/data/data_files.h"

namespace ringside {
namespace {

constexpr std::int64_t global_batch = 8, context = 5;

/// Synthetic tokens behind a gate. The gate counts the samples that go through, and remembers which
/// thread read the last one.
class Gated : public Dataset {
 public:
  std::int64_t size() const override { return plain_->size(); }
  Shape input_shape() const override { return plain_->input_shape(); }
  DType input_dtype() const override { return plain_->input_dtype(); }
  Shape target_shape() const override { return plain_->target_shape(); }
  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_ > 0; });
    --waiting_, --open_;
    ++read_;
    reader_ = std::this_thread::get_id();
    changed_.notify_all();
    if (bad_) throw Error("data: sample {} is bad", sample);
    plain_->read(sample, input, target);
  }

  /// Lets `samples` more samples go through.
  void let(int samples) const {
    std::lock_guard lock(mutex_);
    open_ += samples;
    changed_.notify_all();
  }
  void await_reader() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  void await_read(int samples) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return read_ >= samples; });
  }
  void spoil() const {
    std::lock_guard lock(mutex_);
    bad_ = true;
  }
  std::thread::id reader() const {
    std::lock_guard lock(mutex_);
    return reader_;
  }
  int samples_read() const {
    std::lock_guard lock(mutex_);
    return read_;
  }

 private:
  std::unique_ptr<Dataset> plain_ = synthetic_dataset(40, context, 50, Task::every_token, 1);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int waiting_ = 0, open_ = 0, read_ = 0;
  mutable bool bad_ = false;
  mutable std::thread::id reader_;
};

std::vector<std::int32_t> values(const Tensor& tensor) {
  const auto span = tensor.span<std::int32_t>();
  return {span.begin(), span.end()};
}

class Prefetch : public ::testing::Test {
 protected:
  void start() { loader_.emplace(data_, *device_, global_batch, 7, Loader::Reading::ahead); }
  std::int64_t bytes() const { return device_->ledger().current()[MemoryKind::data]; }

  static constexpr std::int64_t batch_bytes = 2 * 4 * context * 4;  // inputs, targets of 4 samples
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Gated data_;
  std::optional<Loader> loader_;
};

TEST_F(Prefetch, FillsAnExpectedBatchInAThreadOfItsOwnBesideTheCaller) {
  start();
  loader_->expect({3, 4, 4});
  EXPECT_EQ(bytes(), batch_bytes) << "memory is taken at once, filled or not";
  data_.await_reader();  // the loader's thread waits at the gate
  data_.let(4);
  data_.await_read(4);
  EXPECT_NE(data_.reader(), std::this_thread::get_id());
  const Batch batch = loader_->read({3, 4, 4});
  EXPECT_EQ(data_.samples_read(), 4) << "read once";
  EXPECT_EQ(bytes(), batch_bytes);
  const auto plain = synthetic_dataset(40, context, 50, Task::every_token, 1);
  const Batch same = Loader(*plain, *device_, global_batch, 7).read({3, 4, 4});
  EXPECT_EQ(values(batch.inputs), values(same.inputs));
  EXPECT_EQ(values(batch.targets), values(same.targets));
}

TEST_F(Prefetch, ReadsOfABatchThatIsBeingFilledWaitForIt) {
  start();
  loader_->expect({0, 0, 4});
  data_.await_reader();
  std::jthread later([&] { data_.let(4); });
  loader_->read({0, 0, 4});
  EXPECT_EQ(data_.samples_read(), 4);
}

TEST_F(Prefetch, OtherBatchesAreReadAtOnceAndTheOrderDoesNotMatter) {
  data_.let(100);
  start();
  const Loader plain(data_, *device_, global_batch, 7);
  for (std::int64_t step = 0; step < 4; ++step) loader_->expect({step, 0, 4});
  for (const std::int64_t step : {2, 9, 0, 1, 3}) {
    const Batch ahead = loader_->read({step, 0, 4});
    EXPECT_EQ(values(ahead.inputs), values(plain.read({step, 0, 4}).inputs)) << step;
  }
  EXPECT_EQ(bytes(), 0);
}

TEST_F(Prefetch, ExpectingTwiceIsExpectingOnce) {
  data_.let(100);
  start();
  loader_->expect({0, 0, 4});
  loader_->expect({0, 0, 4});
  EXPECT_EQ(bytes(), batch_bytes);
  EXPECT_THROW(loader_->expect({0, 0, global_batch + 1}), Error);
}

TEST_F(Prefetch, ErrorsSurfaceAtTheReadThatWantedTheBatch) {
  start();
  loader_->expect({0, 0, 4});
  data_.await_reader();
  data_.spoil();
  data_.let(1);
  data_.await_read(1);
  EXPECT_NE(testing::complaint([&] {
              loader_->read({0, 0, 4});
            }).find("is bad"),
            std::string::npos);
  EXPECT_EQ(bytes(), 0);
}

TEST_F(Prefetch, EndsWithBatchesThatAreNotRead) {
  start();
  for (std::int64_t step = 0; step < 5; ++step) loader_->expect({step, 0, 4});
  data_.await_reader();
  // The loader's thread may finish some batches before it notices that the loader is destroyed. But
  // it leaves no batch half read.
  std::jthread later([&] { data_.let(100); });
  loader_.reset();
  EXPECT_EQ(data_.samples_read() % 4, 0);
  EXPECT_EQ(bytes(), 0);
}

TEST_F(Prefetch, EndsWhenAnExceptionPasses) {
  data_.let(100);
  EXPECT_THROW(
      {
        const Loader loader(data_, *device_, global_batch, 7, Loader::Reading::ahead);
        loader.expect({0, 0, 4});
        throw Error("elsewhere");
      },
      Error);
  EXPECT_EQ(bytes(), 0);
}

TEST_F(Prefetch, IsNoneUnlessItIsAskedFor) {
  const Loader loader(data_, *device_, global_batch, 7);
  loader.expect({0, 0, 4});
  EXPECT_EQ(bytes(), 0);
  data_.let(4);
  loader.read({0, 0, 4});
  EXPECT_EQ(data_.reader(), std::this_thread::get_id());
}

TEST_F(Prefetch, SeveralThreadsEachGetTheirBatches) {
  data_.let(1 << 20);
  start();
  const Loader plain(data_, *device_, global_batch, 7);
  std::vector<std::jthread> readers;
  for (std::int64_t worker = 0; worker < 4; ++worker)
    readers.emplace_back([&, worker] {
      BatchSlice slice{0, 2 * worker, 2};
      for (int i = 0; i < 30; ++i) {
        const Batch batch = loader_->read(slice);
        EXPECT_EQ(values(batch.inputs), values(plain.read(slice).inputs));
        ++slice.step;
        loader_->expect(slice);
      }
    });
}

/// Images whose elements are all the number of the sample. augment() replaces the first element by
/// its argument `bits`, modulo 1000.
class Numbered : public Dataset {
 public:
  std::int64_t size() const override { return 6; }
  Shape input_shape() const override { return {400, 400, 2}; }  // too large to be read together
  DType input_dtype() const override { return DType::f32; }
  Shape target_shape() const override { return {3}; }
  std::vector<std::int64_t> target_parts() const override { return {2, 1}; }
  void read(std::int64_t sample, std::span<std::byte> input,
            std::span<std::int32_t> target) const override {
    const std::vector<float> all(input.size() / sizeof(float), static_cast<float>(sample));
    std::memcpy(input.data(), all.data(), input.size());
    for (std::size_t t = 0; t < 3; ++t)
      target[t] = static_cast<std::int32_t>(10 * sample + static_cast<std::int64_t>(t));
  }
  void augment(std::span<std::byte> input, std::uint64_t bits) const override {
    const auto value = static_cast<float>(bits % 1000);
    std::memcpy(input.data(), &value, sizeof value);
  }
};

TEST(Loader, PutsSamplesBehindEachOtherAndTargetsPartByPart) {
  const auto device = make_cpu_device(1);
  const Numbered data;
  const Batch batch = Loader(data, *device, 6, 1).read({0, 1, 3});
  EXPECT_EQ(batch.inputs.shape(), Shape({3, 400, 400, 2}));
  const auto inputs = batch.inputs.span<float>();
  const auto targets = values(batch.targets);
  ASSERT_EQ(targets.size(), 9u);
  const std::size_t size = 400 * 400 * 2;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto sample = static_cast<std::int32_t>(inputs[i * size + 1]);
    EXPECT_EQ(inputs[(i + 1) * size - 1], static_cast<float>(sample));
    EXPECT_EQ(targets[2 * i], 10 * sample);
    EXPECT_EQ(targets[2 * i + 1], 10 * sample + 1);
    EXPECT_EQ(targets[6 + i], 10 * sample + 2);
  }
}

TEST(Loader, AugmentsByTheSampleAndTheEpochAlone) {
  const auto device = make_cpu_device(1);
  const Numbered data;
  const auto bits = [&](std::int64_t batch, std::int64_t step, std::uint64_t seed) {
    // Returns what augment() wrote into each sample, indexed by the sample's number.
    const Loader loader(data, *device, batch, seed);
    std::vector<float> out(6);
    for (std::int64_t s = step; s < step + 6 / batch; ++s) {
      const Batch read = loader.read({s, 0, batch});
      const auto inputs = read.inputs.span<float>();
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i)
        out[static_cast<std::size_t>(inputs[i * 320000 + 1])] = inputs[i * 320000];
    }
    return out;
  };
  EXPECT_EQ(bits(6, 0, 1), bits(2, 0, 1));
  EXPECT_EQ(bits(6, 1, 1), bits(2, 3, 1));
  EXPECT_NE(bits(6, 0, 1), bits(6, 1, 1)) << "another epoch";
  EXPECT_NE(bits(6, 0, 1), bits(6, 0, 2)) << "another seed";
}

}  // namespace
}  // namespace ringside
