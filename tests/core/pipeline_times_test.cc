#include "core/train/pipeline_times.h"

#include <gtest/gtest.h>

#include "tests/support/manual_device.h"

namespace ringside {
namespace {

using pipeline::Action;
using pipeline::Operation;

class PipelineTimesTest : public ::testing::Test {
 protected:
  void begin_step(double at) {
    device.set_time(at);
    timeline.begin_step();
    times.begin_step(0);
  }
  void exposed(double begin, double end) {
    timeline.add(Activity::exposed, "wait", {begin}, {end});
  }

  static constexpr Action forward{0, Operation::forward, 0},
      weights{0, Operation::weight_gradient, 0};
  testing::ManualDevice device;
  Timeline timeline{device};
  PipelineTimes times{device, timeline};
};

TEST_F(PipelineTimesTest, WhatAnActionWaitsForIsNotItsTime) {
  begin_step(10);
  exposed(8, 9);  // of the step before
  times.add(forward, false, {12}, {20});
  exposed(11, 12.5);  // a half of it before the action
  exposed(14, 16);
  exposed(15, 17);  // within the other one
  exposed(19, 23);
  times.add(forward, false, {21}, {22});  // which waits all the time
  times.count_step(0);
  times.note_under_way(0, 1);
  EXPECT_DOUBLE_EQ(times.record().stages.at(0).forward_ms, 1e3 * (8 - 0.5 - 3 - 1) / 2);
  EXPECT_DOUBLE_EQ(times.record().waiting_ms, 0) << "that is communication of the scheme";
}

TEST_F(PipelineTimesTest, TheRestOfAnActionBelongsToIt) {
  times.note_under_way(0, 1);
  begin_step(0);
  times.add(weights, false, {1}, {3});
  times.add_wait({3}, {7});
  times.add(weights, true, {7}, {8});
  times.add(weights, false, {8}, {9});
  times.count_step(0);
  EXPECT_DOUBLE_EQ(times.record().stages.at(0).weight_gradient_ms, 1e3 * (2 + 1 + 1) / 2);
  EXPECT_DOUBLE_EQ(times.record().waiting_ms, 4e3);
}

}  // namespace
}  // namespace ringside
