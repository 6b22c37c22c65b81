// The gain of ddp from reducing gradients while backward goes on, on a simulated link that keeps
// communication busy for a third of the step.
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/runner/run/simulation.h"
#include "peer/schemes/ddp.h"
#include "tests/schemes/conformance.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

constexpr std::size_t layers = 12;

/// The only step, as rank 0 recorded it; seconds.
struct StepTimes {
  StepTime time;
  std::vector<Slice> slices;

  double of(Activity activity) const {
    return time.by_activity[static_cast<std::size_t>(activity)];
  }
};

/// Layers of equal size, whose gradients go in as many buckets.
ExperimentConfig config(bool overlap, std::int64_t global_batch) {
  auto out = testing::tiny("mlp");
  out.model.width = 512;
  out.model.layers = layers;
  out.train.steps = 1;
  out.train.warmup = 0;
  out.train.global_batch = global_batch;
  out.device.kind = "sim";
  out.cluster = testing::small_cluster(2);
  out.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 1, .overlap = overlap};
  return out;
}

StepTimes step_of(bool overlap, std::int64_t global_batch) {
  const RunPlan plan = plan_training(config(overlap, global_batch), "ddp", 2);
  const auto ranks = simulate(plan, [](const Progress&) {});
  return {ranks[0].steps.at(0), ranks[0].slices};
}

/// A batch with which communication takes a third of a step that overlaps nothing.
std::int64_t batch_of_a_third() {
  std::int64_t batch = 16;
  const auto share = [&] {
    const StepTimes step = step_of(false, batch);
    return step.of(Activity::communication) / step.time.total;
  };
  while (share() > 1.0 / 3) batch += 16;
  return batch;
}

TEST(Overlap, ExposesLessThanHalfOfWhatItExposesWithout) {
  const std::int64_t batch = batch_of_a_third();
  const StepTimes without = step_of(false, batch), with = step_of(true, batch);
  const double communication = without.of(Activity::communication);
  EXPECT_GT(communication, 0.28 * without.time.total);
  EXPECT_LE(communication, without.time.total / 3);
  // Without overlap all of it is exposed, and the step is what compute and communication take.
  EXPECT_NEAR(without.of(Activity::exposed), communication, 1e-9 * communication);
  EXPECT_LT(with.of(Activity::exposed), 0.5 * without.of(Activity::exposed));
  // The step is shorter by just what is no longer exposed.
  EXPECT_NEAR(without.time.total - with.time.total,
              without.of(Activity::exposed) - with.of(Activity::exposed),
              1e-6 * without.time.total);
}

TEST(Overlap, ShowsBucketsUnderBackwardInTheTrace) {
  const std::int64_t batch = batch_of_a_third();
  for (const bool overlap : {true, false}) {
    const StepTimes step = step_of(overlap, batch);
    int reduced = 0, under_backward = 0, within_backward = 0;
    double begin = 1e300, end = 0;  // of backward
    for (const auto& slice : step.slices)
      if (slice.name.starts_with("backward ")) {
        begin = std::min(begin, slice.begin_s);
        end = std::max(end, slice.begin_s + slice.duration_s);
      }
    EXPECT_LT(begin, end);
    for (const auto& slice : step.slices)
      if (slice.activity == "communication" && slice.name.starts_with("all-reduce bucket ")) {
        ++reduced;
        under_backward += slice.begin_s > begin && slice.begin_s < end - 1e-9;
        within_backward += slice.begin_s > begin && slice.begin_s + slice.duration_s < end;
        EXPECT_TRUE(overlap || slice.begin_s >= end - 1e-9) << slice.name;
      }
    EXPECT_GE(reduced, static_cast<int>(layers) - 2);
    // The last bucket begins when backward is over.
    EXPECT_EQ(under_backward, overlap ? reduced - 1 : 0);
    EXPECT_EQ(within_backward > 0, overlap);
  }
}

TEST(Overlap, ChangesNoBit) {
  for (const Reduce reduce : {Reduce::last, Reduce::every}) {
    auto config = testing::accumulating();
    config.train.reduce = reduce;
    config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.005};
    const RunRecord with = testing::run(plan_training(config, "ddp", 2));
    config.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.005, .overlap = false};
    const RunRecord without = testing::run(plan_training(config, "ddp", 2));
    EXPECT_TRUE(testing::violations(without, with).empty());
  }
}

}  // namespace
}  // namespace ringside::runner
