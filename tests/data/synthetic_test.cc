#include "core/data/synthetic.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/base/error.h"
#include "core/data/synthetic_pairs.h"

namespace ringside {
namespace {

struct SyntheticSample {
  std::vector<std::int32_t> input, target;
  bool operator==(const SyntheticSample&) const = default;
};

SyntheticSample sample_of(const Dataset& data, std::int64_t i) {
  SyntheticSample out{
      std::vector<std::int32_t>(static_cast<std::size_t>(data.input_shape().count()), -1),
      std::vector<std::int32_t>(static_cast<std::size_t>(data.target_shape().count()), -1)};
  data.read(i, std::as_writable_bytes(std::span(out.input)), out.target);
  return out;
}

TEST(Synthetic, TargetsAreTheTokensThatFollow) {
  const auto data = synthetic_dataset(10, 7, 100, Task::every_token, 3);
  EXPECT_EQ(data->size(), 10);
  EXPECT_EQ(data->input_shape(), Shape({7}));
  EXPECT_EQ(data->input_dtype(), DType::i32);
  const auto last = synthetic_dataset(10, 7, 100, Task::last_token, 3);
  ASSERT_EQ(last->target_shape(), Shape({1}));
  for (std::int64_t i = 0; i < data->size(); ++i) {
    const SyntheticSample sample = sample_of(*data, i);
    for (std::size_t t = 0; t + 1 < 7; ++t) EXPECT_EQ(sample.target[t], sample.input[t + 1]);
    EXPECT_EQ(sample_of(*last, i).input, sample.input);
    EXPECT_EQ(sample_of(*last, i).target[0], sample.target[6]);
  }
}

TEST(Synthetic, DependsOnSeedAndSampleAlone) {
  const auto data = synthetic_dataset(5, 16, 1000, Task::every_token, 3);
  const auto more = synthetic_dataset(1'000'000'000'000, 16, 1000, Task::every_token, 3);
  const auto other = synthetic_dataset(5, 16, 1000, Task::every_token, 4);
  EXPECT_EQ(sample_of(*data, 4), sample_of(*more, 4));
  EXPECT_NE(sample_of(*data, 4), sample_of(*data, 3));
  EXPECT_NE(sample_of(*data, 4), sample_of(*other, 4));
  EXPECT_NE(sample_of(*more, 999'999'999'999), sample_of(*more, 999'999'999'998));
}

TEST(Synthetic, MostTokensFollowFromTheOneBeforeAndAllOccur) {
  constexpr std::int64_t samples = 400, context = 63, vocabulary = 50;
  const auto data = synthetic_dataset(samples, context, vocabulary, Task::every_token, 1);
  std::vector<std::int64_t> seen(vocabulary);
  std::int64_t successors = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const SyntheticSample sample = sample_of(*data, i);
    for (std::size_t t = 0; t < sample.input.size(); ++t) {
      ASSERT_GE(sample.input[t], 0);
      ASSERT_LT(sample.input[t], vocabulary);
      ++seen[static_cast<std::size_t>(sample.input[t])];
      successors += sample.target[t] == (sample.input[t] + 1) % vocabulary;
    }
  }
  // The rule makes 7/8 of the tokens successors. Of the others, which are random, one in
  // `vocabulary` is a successor by chance.
  const double share = static_cast<double>(successors) / (samples * context);
  EXPECT_NEAR(share, 7.0 / 8 + 1.0 / 8 / vocabulary, 0.01);
  for (const auto count : seen) {
    EXPECT_GT(count, samples * context / vocabulary / 2);
    EXPECT_LT(count, samples * context / vocabulary * 2);
  }
}

TEST(SyntheticPairs, TargetsRepeatTheSourceAndInputsAreShifted) {
  for (const std::int64_t targets : {1, 5, 7, 17}) {
    const auto data = synthetic_pairs_dataset(10, 7, targets, 100, 3);
    ASSERT_EQ(data->input_shape(), Shape({7 + targets}));
    ASSERT_EQ(data->target_shape(), Shape({targets}));
    for (std::int64_t i = 0; i < data->size(); ++i) {
      const SyntheticSample sample = sample_of(*data, i);
      for (std::size_t t = 0; t < sample.target.size(); ++t) {
        EXPECT_EQ(sample.target[t], sample.input[t % 7]);
        EXPECT_EQ(sample.input[7 + t], t == 0 ? 0 : sample.target[t - 1]);
      }
    }
  }
}

TEST(SyntheticPairs, DependOnSeedAndSampleAlone) {
  const auto data = synthetic_pairs_dataset(5, 16, 4, 1000, 3);
  const auto more = synthetic_pairs_dataset(1'000'000'000'000, 16, 4, 1000, 3);
  EXPECT_EQ(sample_of(*data, 4), sample_of(*more, 4));
  EXPECT_NE(sample_of(*data, 4), sample_of(*data, 3));
  EXPECT_NE(sample_of(*data, 4), sample_of(*synthetic_pairs_dataset(5, 16, 4, 1000, 4), 4));
}

TEST(SyntheticPairs, RefuseSizesThatCannotBe) {
  EXPECT_THROW(synthetic_pairs_dataset(1, 0, 1, 1, 0), Error);
  EXPECT_THROW(synthetic_pairs_dataset(1, 1, 0, 1, 0), Error);
  EXPECT_THROW(synthetic_pairs_dataset(1, 1, 1, 0, 0), Error);
}

TEST(Synthetic, RefusesSizesThatCannotBe) {
  EXPECT_NO_THROW(synthetic_dataset(1, 1, 1, Task::last_token, 0));
  EXPECT_EQ(sample_of(*synthetic_dataset(1, 1, 1, Task::last_token, 0), 0),
            (SyntheticSample{{0}, {0}}));
  EXPECT_THROW(synthetic_dataset(0, 1, 1, Task::every_token, 0), Error);
  EXPECT_THROW(synthetic_dataset(1, 0, 1, Task::every_token, 0), Error);
  EXPECT_THROW(synthetic_dataset(1, 1, 0, Task::every_token, 0), Error);
  EXPECT_THROW(synthetic_dataset(std::int64_t{1} << 62, 3, 1, Task::every_token, 0), Error);
}

}  // namespace
}  // namespace ringside
