#include "core/observe/timeline.h"

#include <gtest/gtest.h>

#include "tests/support/manual_device.h"

namespace ringside {
namespace {

double of(const StepTime& step, Activity activity) {
  return step.by_activity[static_cast<std::size_t>(activity)];
}

class TimelineTest : public ::testing::Test {
 protected:
  void span(Activity activity, double begin, double end) {
    timeline.add(activity, "span", {begin}, {end});
  }
  void step(double begin, double end) {
    device.set_time(begin);
    timeline.begin_step();
    device.set_time(end);
    timeline.end_step();
  }
  testing::ManualDevice device;
  Timeline timeline{device};
};

TEST_F(TimelineTest, WaitsWhileASpanOfExposedCommunicationLasts) {
  EXPECT_FALSE(timeline.waits());
  {
    const auto compute = timeline.scope(Activity::compute, "compute");
    EXPECT_FALSE(timeline.waits());
    const auto outer = timeline.scope(Activity::exposed, "wait");
    { const auto inner = timeline.scope(Activity::exposed, "wait"); }
    EXPECT_TRUE(timeline.waits());
  }
  EXPECT_FALSE(timeline.waits());
}

TEST_F(TimelineTest, CountsOverlappingSpansOnce) {
  step(10, 20);
  span(Activity::communication, 11, 14);
  span(Activity::communication, 12, 13);
  span(Activity::communication, 13, 16);
  span(Activity::compute, 10, 15);
  const auto steps = timeline.step_times();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_DOUBLE_EQ(steps[0].total, 10);
  EXPECT_DOUBLE_EQ(of(steps[0], Activity::communication), 5);
  EXPECT_DOUBLE_EQ(of(steps[0], Activity::compute), 5);
  EXPECT_DOUBLE_EQ(of(steps[0], Activity::exposed), 0);
}

TEST_F(TimelineTest, SplitsASpanBetweenTheStepsThatItCrosses) {
  step(0, 10);
  step(10, 20);
  step(25, 30);
  span(Activity::communication, 8, 27);
  const auto steps = timeline.step_times();
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_DOUBLE_EQ(of(steps[0], Activity::communication), 2);
  EXPECT_DOUBLE_EQ(of(steps[1], Activity::communication), 10);
  EXPECT_DOUBLE_EQ(of(steps[2], Activity::communication), 2) << "20 to 25 is in no step";
}

TEST_F(TimelineTest, LeavesOutWhatLiesOutsideOfSteps) {
  span(Activity::compute, 0, 3);
  step(5, 6);
  span(Activity::compute, 7, 9);
  EXPECT_DOUBLE_EQ(of(timeline.step_times().at(0), Activity::compute), 0);
}

TEST_F(TimelineTest, ScopeRecordsFromItsBeginToItsEnd) {
  device.set_time(1);
  timeline.begin_step();
  {
    const auto scope = timeline.scope(Activity::optimizer, "update");
    device.set_time(4);
  }
  timeline.end_step();
  EXPECT_DOUBLE_EQ(of(timeline.step_times().at(0), Activity::optimizer), 3);
}

TEST_F(TimelineTest, AddsUpLongRuns) {
  constexpr int steps = 3 * static_cast<int>(Timeline::steps_with_spans);
  for (int s = 0; s < steps; ++s) {
    device.set_time(s);
    timeline.begin_step();
    span(Activity::compute, s + 0.1, s + 0.35);
    span(Activity::communication, s + 0.5, s + 1.25);  // into the next step
    device.set_time(s + 1);
    timeline.end_step();
  }
  const auto times = timeline.step_times();
  ASSERT_EQ(times.size(), static_cast<std::size_t>(steps));
  for (int s = 0; s < steps; ++s) {
    EXPECT_NEAR(of(times[s], Activity::compute), 0.25, 1e-9) << s;
    EXPECT_NEAR(of(times[s], Activity::communication), s == 0 ? 0.5 : 0.75, 1e-9) << s;
  }
  EXPECT_EQ(timeline.slices(steps - 2).size(), 2u + 4u) << "two steps with two spans each";
}

TEST_F(TimelineTest, SettledTimesAreThoseOfAnEarlierStep) {
  for (int s = 0; s < 40; ++s) {
    span(Activity::compute, 10 * s, 10 * s + 0.1 * s);
    step(10 * s, 10 * s + 9);
    const auto settled = timeline.settled(Activity::compute);
    ASSERT_EQ(settled.has_value(), s >= 4) << s;
    EXPECT_NEAR(settled.value_or(0), s >= 4 ? 0.1 * (s - 4) : 0, 1e-9) << s;
  }
}

TEST_F(TimelineTest, SlicesAreThoseOfTheLastSteps) {
  step(0, 10);
  step(10, 20);
  span(Activity::compute, 1, 2);
  span(Activity::compute, 11, 13);
  const auto slices = timeline.slices(1);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].activity, "step");
  EXPECT_EQ(slices[0].name, "step 2");
  EXPECT_DOUBLE_EQ(slices[0].begin_s, 10);
  EXPECT_EQ(slices[1].activity, "compute");
  EXPECT_DOUBLE_EQ(slices[1].begin_s, 11);
  EXPECT_DOUBLE_EQ(slices[1].duration_s, 2);
}

TEST_F(TimelineTest, KeepsWhatOnlyTracesShowOnceItIsAsked) {
  const auto serve = [this] {
    const auto span = timeline.traced("serving", [] { return std::string("reply"); });
  };
  const auto hold = [this](std::size_t bytes) {
    return device.tensor({static_cast<std::int64_t>(bytes / 4)}, MemoryKind::activation);
  };
  step(0, 10);
  serve();
  hold(400);
  EXPECT_EQ(timeline.slices(0).size(), 1u) << "the step";
  EXPECT_TRUE(timeline.memory(0).empty());
  timeline.trace(true);
  device.set_time(10);
  const Tensor before = hold(800);
  timeline.begin_step();
  device.set_time(11);
  serve();
  { const Tensor most = hold(40'000); }
  device.set_time(12);
  const Tensor little = hold(4);
  timeline.end_step();
  timeline.trace(false);
  serve();
  const auto slices = timeline.slices(1);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].activity, "serving");
  const auto memory = timeline.memory(1);
  ASSERT_EQ(memory.size(), 4u) << "at the begin, the most, after that, and at the end";
  EXPECT_DOUBLE_EQ(memory[0].at_s, 10);
  EXPECT_EQ(memory[0].use[MemoryKind::activation], 800);
  EXPECT_EQ(memory[1].use[MemoryKind::activation], 40'800);
  EXPECT_EQ(memory[2].use[MemoryKind::activation], 800);
  EXPECT_EQ(memory[3].use[MemoryKind::activation], 804);
  EXPECT_DOUBLE_EQ(of(timeline.step_times()[1], Activity::compute), 0) << "it is no activity";
}

}  // namespace
}  // namespace ringside
