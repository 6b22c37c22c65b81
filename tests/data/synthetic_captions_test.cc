#include "core/data/synthetic_captions.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/data/synthetic_images.h"
#include "tests/data/data_files.h"

namespace ringside {
namespace {

using testing::sample_of;

constexpr std::int64_t pixels = 4 * 5 * 3, caption_context = 12, classes = 3,
                       caption_vocabulary = 50;
const Shape image{4, 5, 3};

std::unique_ptr<Dataset> captions(std::int64_t samples, std::uint64_t seed) {
  return synthetic_captions_dataset(samples, image, classes, caption_context, caption_vocabulary,
                                    seed);
}

TEST(SyntheticCaptions, HaveTheShapeOfAnImageAndItsText) {
  const auto data = captions(10, 1);
  EXPECT_EQ(data->size(), 10);
  EXPECT_EQ(data->input_shape(), Shape({pixels + caption_context}));
  EXPECT_EQ(data->input_dtype(), DType::i32);
  EXPECT_EQ(data->target_shape(), Shape({caption_context}));
}

TEST(SyntheticCaptions, DependOnSeedAndSampleAlone) {
  const auto data = captions(10, 1), more = captions(std::int64_t{1} << 40, 1),
             other = captions(10, 2);
  EXPECT_EQ(sample_of<std::int32_t>(*data, 4), sample_of<std::int32_t>(*more, 4));
  EXPECT_NE(sample_of<std::int32_t>(*data, 4), sample_of<std::int32_t>(*data, 5));
  EXPECT_NE(sample_of<std::int32_t>(*data, 4), sample_of<std::int32_t>(*other, 4));
}

/// Most tokens follow from the token before and from the class that the image shows.
TEST(SyntheticCaptions, SayWhatTheImageShows) {
  constexpr std::int64_t samples = 200;
  const auto data = captions(samples, 1);
  const auto images = synthetic_images_dataset(samples, image, classes, 1);
  std::map<std::int32_t, int> shown;
  int followed = 0;
  for (std::int64_t s = 0; s < samples; ++s) {
    const auto sample = sample_of<std::int32_t>(*data, s);
    const auto alone = sample_of<float>(*images, s);
    EXPECT_EQ(std::memcmp(sample.input.data(), alone.input.data(), pixels * sizeof(float)), 0);
    const std::int32_t by = 1 + alone.target[0];
    ++shown[by];
    for (std::size_t t = 0; t < caption_context; ++t) {
      const std::int32_t token = sample.input[pixels + t], next = sample.target[t];
      ASSERT_TRUE(token >= 0 && token < caption_vocabulary && next >= 0 &&
                  next < caption_vocabulary);
      if (t + 1 < caption_context) {
        EXPECT_EQ(next, sample.input[pixels + t + 1]);
      }
      followed += next == (token + by) % caption_vocabulary ? 1 : 0;
    }
  }
  EXPECT_EQ(shown.size(), classes);
  // One in `caption_vocabulary` of the random tokens is the same by chance.
  const double expected = 7.0 / 8 + 1.0 / 8 / caption_vocabulary;
  EXPECT_NEAR(followed / static_cast<double>(samples * caption_context), expected, 0.03);
}

TEST(SyntheticCaptions, RefuseSizesThatCannotBe) {
  EXPECT_NO_THROW(synthetic_captions_dataset(1, {1, 1, 1}, 1, 1, 1, 1));
  EXPECT_THROW(synthetic_captions_dataset(0, {1, 1, 1}, 1, 1, 1, 1), Error);
  EXPECT_THROW(synthetic_captions_dataset(1, {1, 0, 1}, 1, 1, 1, 1), Error);
  EXPECT_THROW(synthetic_captions_dataset(1, {1, 1, 1}, 0, 1, 1, 1), Error);
  EXPECT_THROW(synthetic_captions_dataset(1, {1, 1, 1}, 1, 0, 1, 1), Error);
  EXPECT_THROW(synthetic_captions_dataset(1, {1, 1, 1}, 1, 1, 0, 1), Error);
}

}  // namespace
}  // namespace ringside
