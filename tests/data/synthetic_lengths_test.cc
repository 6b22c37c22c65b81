#include "core/data/synthetic_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "core/data/loader.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

constexpr std::int64_t samples = 1 << 20, longest = 40, known_words = 1000;

std::unique_ptr<Dataset> data_of(const Lengths& lengths, Packing packing = Packing::padded,
                                 std::uint64_t seed = 3) {
  return synthetic_lengths_dataset(samples, longest, known_words, lengths, packing, seed);
}

struct Sample {
  std::vector<std::int32_t> input, target;
  bool operator==(const Sample&) const = default;
};

/// The sample, filled up to `length` tokens.
Sample sample_of(const Dataset& data, std::int64_t i, std::int64_t length) {
  const auto count = static_cast<std::size_t>(length);
  Sample out{std::vector<std::int32_t>(count, -7), std::vector<std::int32_t>(count, -7)};
  data.read(i, std::as_writable_bytes(std::span(out.input)), out.target);
  return out;
}

TEST(SyntheticLengths, SamplesAreFilledUpWithoutTargets) {
  const auto data = data_of({.median = 12, .sigma = 0.7});
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::int64_t length = data->length(i).value();
    ASSERT_GE(length, 1);
    ASSERT_LE(length, longest);
    const Sample whole = sample_of(*data, i, longest), tight = sample_of(*data, i, length);
    for (std::size_t t = 0; t < whole.input.size(); ++t) {
      if (t >= static_cast<std::size_t>(length)) {
        EXPECT_EQ(whole.input[t], 0);
        EXPECT_EQ(whole.target[t], no_target);
        continue;
      }
      EXPECT_EQ(whole.input[t], tight.input[t]);
      EXPECT_EQ(whole.target[t], tight.target[t]);
      EXPECT_GE(whole.target[t], 0);
      if (t > 0) {
        EXPECT_EQ(whole.input[t], whole.target[t - 1]);
      }
    }
  }
}

TEST(SyntheticLengths, HaveMedianAndSigmaOfTheirLogarithm) {
  constexpr int draws = 4000;
  const auto data = synthetic_lengths_dataset(samples, 1 << 20, known_words,
                                              {.median = 500, .sigma = 0.5}, Packing::padded, 1);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < draws; ++i) {
    const double log = std::log(static_cast<double>(*data->length(i)) / 500);
    sum += log;
    squares += log * log;
  }
  // Four standard errors: sigma / sqrt(draws) of the mean, sigma / sqrt(2 * draws) of sigma.
  EXPECT_NEAR(sum / draws, 0, 4 * 0.5 / std::sqrt(draws));
  EXPECT_NEAR(std::sqrt(squares / draws), 0.5, 4 * 0.5 / std::sqrt(2 * draws));
  for (std::int64_t i = 0; i < 100; ++i)
    EXPECT_EQ(*data_of({.median = 12, .sigma = 0})->length(i), 12);
}

TEST(SyntheticLengths, AreDrawnFromAHistogramByWeight) {
  constexpr int draws = 4000;
  const auto data = data_of({.histogram = {{5, 3}, {900, 1}, {7, 0}}});
  std::map<std::int64_t, int> times;
  for (std::int64_t i = 0; i < draws; ++i) ++times[*data->length(i)];
  ASSERT_EQ(times.size(), 2u) << "a length of weight 0 does not occur";
  // Four standard deviations of a binomial with p = 3/4; 900 is clipped to the longest.
  EXPECT_NEAR(times[5], 0.75 * draws, 4 * std::sqrt(draws * 0.75 * 0.25));
  EXPECT_EQ(times[5] + times[longest], draws);
}

TEST(SyntheticLengths, PackedSamplesAreFullOfSequences) {
  const auto data = data_of({.histogram = {{7, 1}}}, Packing::packed);
  EXPECT_FALSE(data->length(0)) << "all samples are equally long";
  for (std::int64_t i = 0; i < 20; ++i) {
    const Sample sample = sample_of(*data, i, longest);
    int joined = 0;
    for (std::size_t t = 0; t < sample.input.size(); ++t) {
      ASSERT_GE(sample.target[t], 0);
      if (t + 1 < sample.input.size() && t % 7 != 6) {
        EXPECT_EQ(sample.input[t + 1], sample.target[t]);
      } else if (t + 1 < sample.input.size()) {
        joined += sample.input[t + 1] == sample.target[t];
      }
    }
    EXPECT_LE(joined, 1) << "another sequence begins";
  }
}

TEST(SyntheticLengths, DependOnSeedAndSampleAlone) {
  for (const Packing packing : {Packing::padded, Packing::packed}) {
    const auto data = data_of({}, packing), same = data_of({}, packing);
    const auto other = data_of({}, packing, 4);
    EXPECT_EQ(sample_of(*data, 9, longest), sample_of(*same, 9, longest));
    EXPECT_NE(sample_of(*data, 9, longest), sample_of(*data, 8, longest));
    EXPECT_NE(sample_of(*data, 9, longest), sample_of(*other, 9, longest));
  }
}

TEST(SyntheticLengths, LoadersFillUpToTheLongestOfASlice) {
  const auto data = data_of({.median = 12, .sigma = 0.7});
  const auto device = make_cpu_device(1);
  constexpr std::int64_t global_batch = 12, count = 3;
  const Loader loader(*data, *device, global_batch, 5);
  const Loader ahead(*data, *device, global_batch, 5, Loader::Reading::ahead);
  std::int64_t all = 0;
  bool differ = false;
  for (std::int64_t first = 0; first < global_batch; first += count) {
    const BatchSlice slice{2, first, count};
    ahead.expect(slice);
    const Batch batch = loader.read(slice), same = ahead.read(slice);
    ASSERT_EQ(batch.inputs.shape(), batch.targets.shape());
    ASSERT_EQ(batch.inputs.shape()[0], count);
    ASSERT_EQ(same.targets.shape(), batch.targets.shape());
    const auto targets = batch.targets.span<std::int32_t>();
    EXPECT_TRUE(std::ranges::equal(targets, same.targets.span<std::int32_t>()));
    const auto real = std::ranges::count_if(targets, [](auto target) { return target >= 0; });
    EXPECT_EQ(real, loader.targets(slice));
    all += real;
    // Somebody is as long as the batch.
    const std::int64_t width = batch.inputs.shape()[1];
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < count; ++i)
      last += targets[static_cast<std::size_t>((i + 1) * width - 1)] != no_target;
    EXPECT_GE(last, 1);
    differ = differ || last < count;
  }
  EXPECT_TRUE(differ);
  EXPECT_EQ(loader.targets({2, 0, global_batch}), all);
  const auto packed = data_of({}, Packing::packed);
  EXPECT_EQ(Loader(*packed, *device, global_batch, 5).targets({2, 0, global_batch}), 0);
}

TEST(SyntheticLengths, RefuseWhatNoSequenceCanHave) {
  const auto of = [](const Lengths& lengths) {
    return testing::complaint([&] { data_of(lengths); });
  };
  EXPECT_EQ(of({.median = 0}),
            "data.length_median = 0 and data.length_sigma = 1: the median has to be above 0, and "
            "sigma 0 or more");
  EXPECT_EQ(of({.histogram = {{0, 1}}}),
            "data.length_histogram has [0, 1]; a length has to be 1 or more, and a weight 0 to "
            "4294967296");
  EXPECT_EQ(of({.histogram = {{3, 0}}}),
            "data.length_histogram has no weight above 0; give one of its lengths a weight");
}

}  // namespace
}  // namespace ringside
