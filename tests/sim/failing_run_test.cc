// Long runs that fail at random, against closed forms.
#include "core/sim/failing_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ringside::sim {
namespace {

/// The mean of so many draws of one figure, and its standard error.
struct Estimate {
  double mean = 0, error = 0;
};
template <class Figure>
Estimate estimate(const FailingRun& run, double seconds, int draws, Figure figure) {
  double sum = 0, squares = 0;
  for (int seed = 1; seed <= draws; ++seed) {
    const double value = figure(draw_failures(run, seconds, static_cast<std::uint64_t>(seed), 1));
    sum += value;
    squares += value * value;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt((squares / draws - mean * mean) / (draws - 1))};
}
double goodput_of(const FailureCost& cost) { return cost.goodput; }

/// Daly 2006, equation 20, for which a run stands still until its checkpoint is safe.
TEST(FailingRun, HasTheGoodputOfDalysClosedForm) {
  for (const double mtbf : {300.0, 2'000.0}) {
    for (const std::int64_t every : {20, 100}) {
      const FailingRun run{.step_s = 2,
                           .every = every,
                           .stall_s = 10,
                           .restart_s = 30,
                           .failures = {{0.25 / mtbf, 0}, {0.75 / mtbf, 0}}};
      const double interval = 2.0 * static_cast<double>(every);
      const double share = interval / (mtbf * std::exp(run.restart_s / mtbf) *
                                       std::expm1((interval + run.stall_s) / mtbf));
      const Estimate found = estimate(run, 500 * mtbf, 64, goodput_of);
      EXPECT_LT(found.error, 0.01);
      EXPECT_NEAR(found.mean, share, 4 * found.error + 1e-3) << mtbf << ' ' << every;
    }
  }
}

/// Each failure takes the run away for its restart, whatever comes within that time: Poisson's
/// number of failures, and of each the mean work since the last checkpoint.
TEST(FailingRun, CountsFailuresAndLostSteps) {
  const double mtbf = 1e5;
  const FailingRun run{
      .step_s = 1, .every = 1000, .stall_s = 0, .restart_s = 100, .failures = {{1 / mtbf, 0}}};
  const double seconds = 100 * mtbf;
  const Estimate restarts =
      estimate(run, seconds, 64, [](const FailureCost& one) { return one.restarts; });
  EXPECT_NEAR(restarts.mean, 100, 4 * restarts.error);
  EXPECT_NEAR(restarts.error, std::sqrt(100 / 64.0), 0.5);
  const Estimate lost =
      estimate(run, seconds, 64, [](const FailureCost& one) { return one.lost_steps; });
  // Half of an interval a failure, whole steps: the half step under way is none of them.
  EXPECT_NEAR(lost.mean, 100 * (500 - 0.5), 4 * lost.error + 100);
  const Estimate down =
      estimate(run, seconds, 64, [](const FailureCost& one) { return one.down_s; });
  EXPECT_NEAR(down.mean, run.restart_s, 0.5);
}

TEST(FailingRun, WithoutFailuresPaysForItsCheckpointsAlone) {
  FailingRun run{.step_s = 1, .every = 50, .stall_s = 5};
  EXPECT_NEAR(draw_failures(run, 10 * 55, 1, 1).goodput, 50.0 / 55, 1e-12);
  run.write_s = 30;  // beside training
  EXPECT_NEAR(draw_failures(run, 10 * 55, 1, 1).goodput, 50.0 / 55, 1e-12);
  run.write_s = 80;  // the next checkpoint waits for it
  EXPECT_NEAR(draw_failures(run, 50 + 5 + 10 * 85, 1, 1).goodput, 550.0 / (55 + 850), 1e-12);
  run.every = 0;
  EXPECT_NEAR(draw_failures(run, 1000, 1, 1).goodput, 1, 1e-12);
}

/// A checkpoint helps once it is written: a failure before that costs the interval before too.
TEST(FailingRun, LosesMoreWhileACheckpointIsWritten) {
  const double mtbf = 5e4;
  FailingRun run{.step_s = 1, .every = 1000, .restart_s = 10, .failures = {{1 / mtbf, 0}}};
  const auto lost = [&] {
    const Estimate lost_steps = estimate(
        run, 400 * mtbf, 32, [](const FailureCost& one) { return one.lost_steps / one.restarts; });
    EXPECT_LT(lost_steps.error, 5);
    return lost_steps.mean;
  };
  const double at_once = lost();
  run.write_s = 400;
  EXPECT_NEAR(lost() - at_once, 400, 25) << "by the time of the write";
}

/// With workers enough, the mean number that is away is that of a queue without end.
TEST(FailingRun, DoesWithoutLostWorkers) {
  FailingRun run{
      .workers = 10, .step_s = 1, .replace_s = 200, .expendable = 10'000, .failures = {{0.001, 2}}};
  const double seconds = 1e6, away = 0.001 * 2 * (200 - 200 * 200 / (2 * seconds));
  const Estimate found = estimate(run, seconds, 64, goodput_of);
  EXPECT_NEAR(found.mean, 1 - away / 10, 4 * found.error + 1e-6);
  const FailureCost cost = draw_failures(run, seconds, 7, 16);
  EXPECT_EQ(cost.restarts, 0);
  EXPECT_NEAR(cost.lost_workers, 2000, 5 * 2 * std::sqrt(1000.0 / 16));
  run.expendable = 1;  // two at a time are too many
  EXPECT_NEAR(draw_failures(run, seconds, 7, 16).restarts, 1000, 5 * std::sqrt(1000.0 / 16));
}

TEST(FailingRun, IsDrawnByItsSeed) {
  const FailingRun run{.step_s = 1, .every = 10, .failures = {{0.01, 0}}};
  const double first = draw_failures(run, 1e4, 1, 1).goodput;
  EXPECT_EQ(first, draw_failures(run, 1e4, 1, 1).goodput);
  EXPECT_NE(first, draw_failures(run, 1e4, 2, 1).goodput);
  EXPECT_NE(first, draw_failures(run, 1e4, 1, 2).goodput);
}

}  // namespace
}  // namespace ringside::sim
