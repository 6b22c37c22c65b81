#include "experiments/runner/report/interval.h"

#include <gtest/gtest.h>

namespace ringside::runner {
namespace {

TEST(Median, OfAnEvenNumberIsBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
}

TEST(MedianInterval, OfFewValuesIsTheirRange) {
  EXPECT_FALSE(median_interval({}).has_value());
  EXPECT_FALSE(median_interval({1}).has_value());
  for (const auto& values : {std::vector<double>{2, 1}, {3, 1, 2}, {4, 1, 3, 2}, {5, 2, 1, 4, 3}}) {
    const auto interval = median_interval(values);
    ASSERT_TRUE(interval.has_value());
    EXPECT_EQ(interval->low, 1) << values.size();
    EXPECT_EQ(interval->high, static_cast<double>(values.size()));
  }
}

TEST(MedianInterval, OfManyValuesIsNarrowerAndTheSameEachTime) {
  std::vector<double> values;
  for (int i = 0; i <= 100; ++i) values.push_back(i);
  const auto interval = median_interval(values), again = median_interval(values);
  EXPECT_LE(interval->low, 50);
  EXPECT_GE(interval->high, 50);
  // The values are 0 to 100. In 95% of all resamples of these 101 values the median lies within
  // 50 +- 2 * sqrt(101) / 2.
  EXPECT_NEAR(interval->low, 40, 3);
  EXPECT_NEAR(interval->high, 60, 3);
  EXPECT_EQ(interval->low, again->low);
  EXPECT_EQ(interval->high, again->high);
}

TEST(MedianInterval, OverlapsWhatItHasAValueInCommonWith) {
  EXPECT_TRUE((Interval{1, 2}.overlaps({2, 3})));
  EXPECT_TRUE((Interval{1, 4}.overlaps({2, 3})));
  EXPECT_FALSE((Interval{1, 2}.overlaps({2.1, 3})));
}

}  // namespace
}  // namespace ringside::runner
