// The content of traces: read from their JSON alone, and compared with the record of the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "experiments/runner/results/trace.h"
#include "experiments/runner/run/simulation.h"
#include "peer/schemes/ddp.h"
#include "ps/schemes/ps_options.h"
#include "tests/schemes/simulated.h"
#include "tests/schemes/tiny_runs.h"
#include "tests/support/read_trace.h"
#include "tests/support/small_cluster.h"

namespace ringside::runner {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using testing::ReadTrace;
using testing::TraceSlice;

/// A run whose trace has all of its steps.
ExperimentConfig traced() {
  auto out = testing::tiny("mlp");
  out.train.steps = 4;
  out.train.warmup = 0;
  out.scheme_options["ddp"] = peer::DdpOptions{.bucket_mb = 0.002};
  return out;
}

/// The plan of a scheme; "easgd" is that of servers with this consistency. Its workers do equally
/// many steps, as a worker that comes too late for any would have an empty trace.
RunPlan plan_of(ExperimentConfig config, const std::string& scheme) {
  if (scheme == "easgd")
    config.scheme_options["ps"] = ps::PsOptions{
        .consistency = ps::Consistency::easgd, .communication_period = 1, .equal_steps = true};
  return plan_training(config, scheme == "easgd" ? "ps" : scheme, scheme == "single" ? 1 : 2);
}

RunRecord on_threads(const ExperimentConfig& config, const std::string& scheme) {
  return testing::run(plan_of(config, scheme));
}

RunRecord in_a_cluster(const ExperimentConfig& config, const std::string& scheme) {
  const RunPlan plan = plan_of(testing::simulated(config, testing::small_cluster(2)), scheme);
  return make_row(plan, simulate(plan, [](const Progress&) {}));
}

std::set<std::string> lines_of(const ReadTrace& trace) {
  std::set<std::string> out;
  for (const TraceSlice& slice : trace.slices) out.insert(slice.line);
  return out;
}

class Traces : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  const std::string& scheme() const { return std::get<0>(GetParam()); }
  RunRecord row() const {
    return std::get<1>(GetParam()) ? in_a_cluster(traced(), scheme())
                                   : on_threads(traced(), scheme());
  }
};

TEST_P(Traces, AreWellFormed) {
  const RunRecord row = this->row();
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  EXPECT_THAT(testing::faults(trace), IsEmpty());
  EXPECT_EQ(trace.processes.size(), row.ranks.size());
  for (const RankRecord& rank : row.ranks) {
    EXPECT_EQ(trace.processes.at(rank.rank), fmt::format("rank {} ({})", rank.rank, rank.role));
    // Every step is in the trace, so the largest total is that of the row, unless it was reached
    // before the first step.
    const std::int64_t peak = testing::memory_peak(trace, rank.rank);
    EXPECT_GT(peak, 0);
    EXPECT_LE(peak, rank.at_peak.total());
    if (rank.role == "worker") {
      EXPECT_EQ(peak, rank.at_peak.total());
    }
  }
}

TEST_P(Traces, LeadFromWhatIsReadyToWhatFollows) {
  const RunRecord row = this->row();
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  std::set<const TraceSlice*> reached;
  for (const auto& [number, events] : trace.arrows)
    for (const auto& event : events) reached.insert(event.slice);
  // Where workers do not wait for each other, the server's last steps may be those of another one.
  const bool free = scheme() == "easgd" && !std::get<1>(GetParam());
  int pushes = 0;
  for (const TraceSlice& slice : trace.slices) {
    const bool communicates = slice.category == "communication";
    const bool is_push = communicates && slice.operation == "push_pull";
    const bool is_collective =
        communicates && slice.sequence > 0 && !slice.line.starts_with("server ");
    const bool serves = slice.category == "serving" && !slice.name.starts_with("re");
    if (is_push || is_collective || serves) {
      EXPECT_GT(slice.bytes, 0) << slice.name;
      pushes += is_push && reached.contains(&slice);
      EXPECT_TRUE(reached.contains(&slice) || (is_push && free))
          << "no arrow passes " << slice.name;
    }
  }
  EXPECT_TRUE(pushes > 0 || !free);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Traces,
                         ::testing::Combine(::testing::Values("single", "dp", "ddp", "fsdp", "ps",
                                                              "easgd", "local_sgd"),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) ? "_simulated" : "");
                         });

TEST(TraceLines, AreOneForEachCommunicatorAndServer) {
  const auto lines = [](const std::string& scheme) {
    return lines_of(testing::read_trace(trace(in_a_cluster(traced(), scheme).ranks)));
  };
  EXPECT_THAT(lines("single"), ::testing::UnorderedElementsAre("compute", "steps"));
  EXPECT_THAT(lines("ddp"), Contains("ddp"));
  EXPECT_THAT(lines("fsdp"), Contains("fsdp"));
  EXPECT_THAT(lines("ps"), ::testing::IsSupersetOf({"server 0", "serving"}));
}

TEST(TraceArrows, LeadFromAPushToItsUpdateOnTheServer) {
  const RunRecord row = on_threads(traced(), "ps");
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  int pushes = 0;
  for (const auto& [number, events] : trace.arrows) {
    if (events.front().slice->operation != "push_pull") continue;
    ++pushes;
    EXPECT_EQ(events.size(), 3u);
    EXPECT_THAT(events[1].slice->name, ::testing::StartsWith("apply gradient of worker"));
    EXPECT_EQ(events.back().slice->name, "optimizer");
    EXPECT_NE(events.front().slice->pid, events.back().slice->pid) << "the server has its own rank";
  }
  int asked = 0;
  for (const TraceSlice& slice : trace.slices)
    asked += slice.category == "communication" && slice.operation == "push_pull";
  EXPECT_EQ(pushes, asked) << "every push of every step";
}

TEST(TraceArrows, LeadFromABucketThatIsReadyToItsSumAndToWhoWaitsForIt) {
  const RunRecord row = on_threads(traced(), "ddp");
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  int sums = 0;
  for (const auto& [number, events] : trace.arrows) {
    ASSERT_EQ(events.size(), 3u);
    const TraceSlice &ready = *events[0].slice, &sum = *events[1].slice, &wait = *events[2].slice;
    EXPECT_THAT(ready.name, ::testing::StartsWith("begin bucket "));
    const std::string bucket = ready.name.substr(6);
    EXPECT_EQ(sum.name, "all-reduce " + bucket);
    EXPECT_THAT(sum.line, ::testing::StartsWith("ddp")) << "or one of its further lines";
    EXPECT_EQ(wait.name, "wait all-reduce " + bucket);
    ++sums;
  }
  EXPECT_GE(sums, 2 * 4 * 2) << "several buckets in each of four steps of two ranks";
}

/// The last steps alone are traced: what came before has no launches and no counters.
TEST(TracedSteps, AreTheLastFour) {
  auto config = traced();
  config.train.steps = 9;
  const RunRecord row = on_threads(config, "ddp");
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  std::set<std::string> steps;
  for (const TraceSlice& slice : trace.slices)
    if (slice.category == "step") steps.insert(slice.name);
  EXPECT_THAT(steps, ::testing::ElementsAre("step 6", "step 7", "step 8", "step 9"));
  EXPECT_THAT(testing::faults(trace), IsEmpty());
}

/// What was hidden of communication, in milliseconds a step, as a reader of the trace finds it.
double hidden_ms(const ReadTrace& trace, std::size_t workers, std::int64_t steps) {
  double hidden = 0;
  for (std::size_t pid = 0; pid < workers; ++pid)
    hidden += 1e-6 * static_cast<double>(
                         testing::covered_in_steps(trace, static_cast<int>(pid), "communication") -
                         testing::covered_in_steps(trace, static_cast<int>(pid), "exposed"));
  return hidden / static_cast<double>(workers) / static_cast<double>(steps);
}

class Overlap : public ::testing::TestWithParam<bool> {};

TEST_P(Overlap, OfATraceIsThatOfTheRow) {
  auto config = traced();
  config.model.width = 96;
  config.train.steps = 6;
  config.train.warmup = 2;  // four steps are measured, and these the trace has
  const RunRecord row = GetParam() ? in_a_cluster(config, "ddp") : on_threads(config, "ddp");
  const ReadTrace trace = testing::read_trace(runner::trace(row.ranks));
  const double communication = row.time_ms.communication, exposed = row.time_ms.exposed;
  const double hidden = hidden_ms(trace, row.ranks.size(), 4);
  EXPECT_GT(communication, 0);
  EXPECT_NEAR(hidden, communication - exposed, 0.01 * communication);
  EXPECT_NEAR(hidden / communication, 1 - exposed / communication, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Devices, Overlap, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "simulated" : "threads"; });

}  // namespace
}  // namespace ringside::runner
