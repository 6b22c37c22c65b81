#include "core/data/masked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/data/synthetic.h"
#include "tests/data/data_files.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::sample_of;

constexpr std::int64_t vocabulary = 103, words = 100;
constexpr std::int32_t cls = 100, sep = 101, mask = 102;
constexpr std::int64_t masked_context = 40, masked = 6, length = masked_context - 3;

std::unique_ptr<Dataset> plain(std::int64_t tokens = length) {
  return synthetic_dataset(1000, tokens, words, Task::last_token, 1);
}
std::unique_ptr<Dataset> dataset(std::uint64_t seed = 1) {
  return masked_dataset(plain(), masked_context, vocabulary, masked, seed);
}

TEST(Masked, HasTheShapesOfItsTask) {
  const auto data = dataset();
  EXPECT_EQ(data->size(), 1000);
  EXPECT_EQ(data->input_shape(), Shape({2 * masked_context + masked}));
  EXPECT_EQ(data->input_dtype(), DType::i32);
  EXPECT_EQ(data->target_shape(), Shape({masked + 1}));
  EXPECT_EQ(data->target_parts(), (std::vector<std::int64_t>{masked, 1}));
}

TEST(Masked, UncoveredIsAPairOfWhatItWasMadeOf) {
  const auto data = dataset();
  const auto source = plain();
  std::set<std::vector<std::int32_t>> second_halves;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const auto words_of = sample_of<std::int32_t>(*source, i).input;
    second_halves.emplace(words_of.begin() + 19, words_of.end());
  }
  for (std::int64_t i = 0; i < 300; ++i) {
    const auto sample = sample_of<std::int32_t>(*data, i);
    auto tokens = std::vector(sample.input.begin(), sample.input.begin() + masked_context);
    for (std::size_t m = 0; m < masked; ++m) {
      const auto position = static_cast<std::size_t>(sample.input[2 * masked_context + m]);
      if (m > 0) {
        EXPECT_GT(sample.input[2 * masked_context + m], sample.input[2 * masked_context + m - 1]);
      }
      ASSERT_LT(position, tokens.size());
      EXPECT_LT(tokens[position] == mask ? 0 : tokens[position], words) << "no special token";
      tokens[position] = sample.target[m];
    }
    const auto source_words = sample_of<std::int32_t>(*source, i).input;
    EXPECT_EQ(tokens[0], cls);
    EXPECT_EQ(tokens[20], sep);
    EXPECT_EQ(tokens[39], sep);
    EXPECT_TRUE(std::equal(source_words.begin(), source_words.begin() + 19, tokens.begin() + 1));
    const std::vector second(tokens.begin() + 21, tokens.begin() + 39);
    EXPECT_TRUE(second_halves.contains(second));
    const bool follows = std::equal(second.begin(), second.end(), source_words.begin() + 19);
    EXPECT_EQ(sample.target[masked], follows ? 0 : 1);
    for (std::int64_t t = 0; t < masked_context; ++t)
      EXPECT_EQ(sample.input[static_cast<std::size_t>(masked_context + t)], t <= 20 ? 0 : 1);
  }
}

TEST(Masked, CountsComeOutAsTheyShould) {
  const auto data = dataset();
  int covered = 0, same = 0, other = 0, strangers = 0;
  std::vector<int> at(masked_context);
  constexpr int samples = 1000;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto sample = sample_of<std::int32_t>(*data, i);
    for (std::size_t m = 0; m < masked; ++m) {
      const auto position = static_cast<std::size_t>(sample.input[2 * masked_context + m]);
      ++at[position];
      const auto token = sample.input[position];
      ++(token == mask ? covered : token == sample.target[m] ? same : other);
    }
    strangers += sample.target[masked];
  }
  constexpr int all = samples * static_cast<int>(masked);
  EXPECT_NEAR(covered, 0.8 * all, 0.02 * all);
  EXPECT_NEAR(same, 0.101 * all, 0.015 * all);
  EXPECT_NEAR(other, 0.099 * all, 0.015 * all);
  EXPECT_NEAR(strangers, samples / 2, 60);
  for (const std::size_t special : {0, 20, 39}) EXPECT_EQ(at[special], 0);
  for (std::size_t t = 1; t < 39; ++t)
    if (t != 20) {
      EXPECT_NEAR(at[t], all / length, 60) << t;  // nearly five standard deviations
    }
}

TEST(Masked, DependsOnSeedAndSampleAlone) {
  EXPECT_EQ(sample_of<std::int32_t>(*dataset(), 17), sample_of<std::int32_t>(*dataset(), 17));
  EXPECT_NE(sample_of<std::int32_t>(*dataset(), 17), sample_of<std::int32_t>(*dataset(2), 17));
}

TEST(Masked, MayHideEverythingAndRefusesMore) {
  const auto all = masked_dataset(plain(2), 5, vocabulary, 2, 1);
  const auto sample = sample_of<std::int32_t>(*all, 0);
  EXPECT_EQ(sample.input[10], 1);
  EXPECT_EQ(sample.input[11], 3);
  EXPECT_THAT(complaint([] { masked_dataset(plain(2), 5, vocabulary, 3, 1); }),
              HasSubstr("model.masked = 3 is out of range"));
  EXPECT_THROW(masked_dataset(plain(2), 5, vocabulary, 0, 1), Error);
  EXPECT_THROW(masked_dataset(plain(3), 5, vocabulary, 1, 1), Error);
  EXPECT_THAT(complaint([] { pair_length(4, 100); }), HasSubstr("model.context = 4"));
  EXPECT_THAT(complaint([] { pair_length(5, 3); }), HasSubstr("model.vocabulary = 3"));
}

}  // namespace
}  // namespace ringside
