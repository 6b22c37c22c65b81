// Few lines about many strangers.
#include "experiments/runner/hosts/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace ringside::runner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RefusalsTest : public ::testing::Test {
 protected:
  std::vector<std::string> said() { return std::exchange(said_, {}); }

  double now_ = 100;
  std::vector<std::string> said_;
  std::optional<Refusals> refusals_{std::in_place,
                                    [this](const std::string& line) { said_.push_back(line); },
                                    [this] { return now_; }};
};

TEST_F(RefusalsTest, ACauseIsSaidOnceAndThenCounted) {
  for (int i = 0; i < 2400; ++i) {  // for ten seconds
    refusals_->add("a connection of user 7");
    now_ += 1.0 / 240;
  }
  EXPECT_THAT(said(), ElementsAre("a connection of user 7"));
  now_ = 110;  // not a little less, by rounding
  refusals_->look();
  EXPECT_THAT(said(),
              ElementsAre("2399 more like that within 10 s; the last: a connection of user 7"));
  now_ += 60;
  refusals_->look();
  EXPECT_THAT(said(), IsEmpty());
  EXPECT_EQ(refusals_->total(), 2400u);
}

TEST_F(RefusalsTest, ManyCausesAreCountedToo) {
  for (int i = 0; i < 1000; ++i) refusals_->add("cause " + std::to_string(i));
  EXPECT_THAT(said(), ElementsAre("cause 0", "cause 1", "cause 2", "cause 3", "cause 4"));
  now_ += 10;
  refusals_->add("another cause");
  EXPECT_THAT(said(),
              ElementsAre("995 more like that within 10 s; the last: cause 999", "another cause"));
}

TEST_F(RefusalsTest, WhatIsCountedIsSaidAtTheEnd) {
  refusals_->add("no key", 300);
  EXPECT_THAT(said(), ElementsAre("no key"));
  now_ += 3;
  refusals_.reset();
  EXPECT_THAT(said(), ElementsAre("299 more like that within 3 s; the last: no key"));
}

}  // namespace
}  // namespace ringside::runner
