// Invented runs for tests of `explain`, in which each figure is known.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/experiments/explain_stages.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside {

inline constexpr double ms = 1e-3;  // slices are in seconds

/// A training step of one rank as its slices, which begin at `at` ms: forward and backward of two
/// units, an all-reduce of a bucket that lasts until `reduced`, and the optimizer.
struct MadeUpStep {
  double at = 0, forward = 2, backward = 4;  // of each unit
  double reduced = 20;                       // in ms, absolute: on all ranks the same
  double optimizer = 1;

  double backward_end() const { return at + 2 * forward + 2 * backward; }
  double end() const { return std::max(reduced, backward_end()) + optimizer; }
  void add_to(RankRecord& rank) const {
    const auto add = [&](const char* activity, const char* name, double begin, double end) {
      rank.slices.push_back({activity, name, begin * ms, (end - begin) * ms});
    };
    add("step", "step", at, end());
    add("data", "read batch", at, at);
    add("compute", "forward a", at, at + forward);
    add("compute", "forward b", at + forward, at + 2 * forward);
    add("compute", "backward b", at + 2 * forward, at + 2 * forward + backward);
    add("compute", "backward a", at + 2 * forward + backward, backward_end());
    add("communication", "all-reduce bucket 0", backward_end(), reduced);
    add("exposed", "wait all-reduce bucket 0", backward_end(), reduced);
    add("optimizer", "optimizer", reduced, reduced + optimizer);
  }
};

/// Two ranks of `ddp` that do one traced step; the second rank's backward takes `slower` times as
/// long. Their all-reduce takes 3 ms once both are there.
struct TwoRanks {
  RunPlan plan = runner::plan_training(made_up_experiment(), "ddp", 2);
  std::vector<RankRecord> records;

  explicit TwoRanks(double slower) {
    MadeUpStep fast, slow;
    slow.backward *= slower;
    fast.reduced = slow.reduced = slow.backward_end() + 3;
    for (const MadeUpStep& step : {fast, slow}) {
      RankRecord& record = records.emplace_back();
      record.rank = static_cast<int>(records.size()) - 1;
      record.role = "worker";
      record.parameters = 1000;
      record.bytes_sent_per_step = 4000;
      record.minimum_bytes_per_step = 4000;
      step.add_to(record);
      for (int i = 0; i < 3; ++i) {
        StepTime& time = record.steps.emplace_back();
        time.total = step.end() * ms;
        time.by_activity[static_cast<std::size_t>(Activity::compute)] = step.backward_end() * ms;
        time.by_activity[static_cast<std::size_t>(Activity::communication)] =
            (step.reduced - step.backward_end()) * ms;
        time.by_activity[static_cast<std::size_t>(Activity::exposed)] =
            (step.reduced - step.backward_end()) * ms;
        time.by_activity[static_cast<std::size_t>(Activity::optimizer)] = ms;
      }
    }
  }
  Staged staged() const { return evidence_of_records(plan, records); }
};

/// A span of a made-up step, in ms.
struct MadeUpSpan {
  const char* activity;
  const char* name;
  double begin, end;
};

/// Two ranks that do the same in their one step, whose first span begins at 0 and last span ends
/// it. Spans of one activity do not overlap.
inline Staged two_equal_ranks(const RunPlan& plan, const std::vector<MadeUpSpan>& spans) {
  RankRecord rank;
  rank.role = "worker";
  rank.parameters = 1000;
  StepTime time;
  time.total = spans.back().end * ms;
  rank.slices.push_back({"step", "step", 0, time.total});
  for (const MadeUpSpan& span : spans) {
    const double seconds = (span.end - span.begin) * ms;
    rank.slices.push_back({span.activity, span.name, span.begin * ms, seconds});
    time.by_activity[static_cast<std::size_t>(*value_named<Activity>(span.activity))] += seconds;
  }
  rank.steps = {time, time, time};
  RankRecord other = rank;
  other.rank = 1;
  return evidence_of_records(plan, {rank, other});
}

/// Evidence without a trace, whose parts of a step add up.
inline Staged row_evidence(const std::string& scheme, int world,
                           const tools::explain::StepParts& parts) {
  Staged out;
  runner::ExperimentConfig config = made_up_experiment();
  config.train.global_batch = 4;
  config.train.micro_batch = 4;
  out.row = std::make_unique<RunRecord>();
  RunRecord& row = *out.row;
  row.plan = runner::plan_training(config, scheme, world);
  row.ranks.resize(row.plan.ranks.size());
  for (std::size_t r = 0; r < row.ranks.size(); ++r) row.ranks[r].rank = static_cast<int>(r);
  row.parameters = 1'000'000;
  row.step_ms.median = parts.step;
  row.time_ms.compute = parts.compute;
  row.time_ms.communication = parts.communication;
  row.time_ms.exposed = parts.exposed;
  row.time_ms.optimizer = parts.optimizer;
  row.time_ms.serving_optimizer = parts.serving_optimizer;
  row.time_ms.data = parts.data;
  row.time_ms.idle = parts.idle;
  for (RankRecord& rank : row.ranks) rank.bytes_sent_per_step = rank.bytes_received_per_step = 1e6;
  row.bytes_minimum_per_step = 1e6;
  out.evidence = tools::explain::evidence_of_case(runner::summarise({row}).front(), {out.row.get()},
                                                  "no folder");
  return out;
}

}  // namespace ringside
