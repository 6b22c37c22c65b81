#include "core/data/synthetic_images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/data/data_files.h"

namespace ringside {
namespace {

using testing::sample_of;

TEST(SyntheticImages, HaveTheShapeTheyAreAskedFor) {
  const auto data = synthetic_images_dataset(10, {24, 20, 3}, 1000, 1);
  EXPECT_EQ(data->size(), 10);
  EXPECT_EQ(data->input_shape(), Shape({24, 20, 3}));
  EXPECT_EQ(data->input_dtype(), DType::f32);
  EXPECT_EQ(data->target_shape(), Shape({1}));
}

TEST(SyntheticImages, DependOnSeedAndSampleAlone) {
  const auto data = synthetic_images_dataset(10, {8, 8, 3}, 10, 1);
  const auto more = synthetic_images_dataset(std::int64_t{1} << 40, {8, 8, 3}, 10, 1);
  const auto other = synthetic_images_dataset(10, {8, 8, 3}, 10, 2);
  EXPECT_EQ(sample_of<float>(*data, 4), sample_of<float>(*more, 4));
  EXPECT_NE(sample_of<float>(*data, 4), sample_of<float>(*data, 5));
  EXPECT_NE(sample_of<float>(*data, 4), sample_of<float>(*other, 4));
}

TEST(SyntheticImages, TellTheirClassUnderTheNoise) {
  constexpr std::int64_t classes = 10, samples = 600;
  const auto training = synthetic_images_dataset(samples, {12, 12, 3}, classes, 1);
  const auto held_out = synthetic_images_dataset(100, {12, 12, 3}, classes, 2);
  std::map<std::int32_t, std::vector<float>> mean;
  std::map<std::int32_t, int> count;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto sample = sample_of<float>(*training, i);
    auto& of_class = mean[sample.target[0]];
    of_class.resize(sample.input.size());
    ++count[sample.target[0]];
    for (std::size_t p = 0; p < of_class.size(); ++p) {
      of_class[p] += sample.input[p];
      sum += sample.input[p];
      squares += sample.input[p] * sample.input[p];
    }
  }
  ASSERT_EQ(mean.size(), classes);
  const auto values = static_cast<double>(samples * 12 * 12 * 3);
  EXPECT_NEAR(sum / values, 0, 0.05);
  EXPECT_NEAR(std::sqrt(squares / values), 0.7, 0.1);
  // For more than 90 of the 100 images of another seed, the class whose mean is nearest is the
  // right class.
  int right = 0;
  for (std::int64_t i = 0; i < held_out->size(); ++i) {
    const auto sample = sample_of<float>(*held_out, i);
    std::int32_t best = -1;
    double least = 1e30;
    for (const auto& [kind, total] : mean) {
      double distance = 0;
      for (std::size_t p = 0; p < total.size(); ++p)
        distance += std::pow(sample.input[p] - total[p] / static_cast<float>(count[kind]), 2);
      if (distance < least) least = distance, best = kind;
    }
    right += best == sample.target[0] ? 1 : 0;
  }
  EXPECT_GT(right, 90);
}

TEST(SyntheticImages, RefuseSizesThatCannotBe) {
  EXPECT_NO_THROW(synthetic_images_dataset(1, {1, 1, 1}, 1, 1));
  EXPECT_THROW(synthetic_images_dataset(0, {1, 1, 1}, 1, 1), Error);
  EXPECT_THROW(synthetic_images_dataset(1, {1, 0, 1}, 1, 1), Error);
  EXPECT_THROW(synthetic_images_dataset(1, {1, 1, 1}, 0, 1), Error);
  EXPECT_THROW(synthetic_images_dataset(1, {1, 1}, 1, 1), Error);
}

}  // namespace
}  // namespace ringside
