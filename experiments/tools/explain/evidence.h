// The evidence on one case of a comparison: the measurements on which its explanation rests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/report/report.h"
#include "experiments/tools/explain/critical_path.h"
#include "experiments/tools/explain/traced_steps.h"
#include "experiments/tools/explain/waits.h"

namespace ringside::tools::explain {

/// Milliseconds of a step, as RunRecord::time_ms: medians over the repeats of the case.
struct StepParts {
  double step = 0;  // median of the slowest worker
  double compute = 0, communication = 0, exposed = 0, optimizer = 0, data = 0, encoding = 0;
  double idle = 0, serving_optimizer = 0;
  /// The mean step of an average worker, which the parts add up to. Shares of a step are shares of
  /// this: a scheme that does more in some steps has a mean far above its median.
  double mean() const { return compute + exposed + optimizer + data + encoding + idle; }
};

/// The compute time of each worker in a step of the trace, in milliseconds, by rank.
struct RankTime {
  int rank = 0;
  double compute_ms = 0, busy_ms = 0;  // busy: all but waits for others
};

struct Evidence {
  runner::CaseSummary summary{};
  /// The repeat whose step is nearest to the median. Points into the records.
  const RunRecord* row = nullptr;
  StepParts ms{};
  TracedRun trace{};       // of that repeat; without steps if there is no trace
  std::string no_trace{};  // why there is none; else empty
  std::vector<Wait> waits{};
  std::vector<PathPart> path{};
  std::vector<RankTime> ranks{};

  const RunPlan& plan() const { return row->plan; }
  bool traced() const { return trace.steps() > 0; }
  /// The sum of `count` over the waits of an average worker's step, in milliseconds, scaled to the
  /// case's exposed time, because a trace has only four steps of one repeat.
  template <class Count>
  double of_exposed(Count count) const {
    double counted = 0, all = 0;
    for (const Wait& wait : waits) {
      counted += count(wait);
      all += wait.ms();
    }
    return all > 0 ? ms.exposed * counted / all : 0;
  }
  /// Exposed time of this kind without waits until the last rank has come.
  double transfer_ms(WaitFor kind) const;
  /// Exposed time in which workers wait until the last rank has come to a collective.
  double for_last_rank_ms() const;
  /// Exposed time in which workers wait for values of other stages of a pipeline, and the part of
  /// it that free sends would leave; 0 without a pipeline.
  double for_stages_ms() const;
  double bubble_ms() const;
  /// A time of the trace's steps, scaled to the case's steps by their compute, which is the same
  /// work.
  double scaled(double traced_ms) const;
  /// Milliseconds of a step's backward; without a trace two thirds of compute, because backward has
  /// twice as many products as forward.
  double backward_ms() const;
};

/// The evidence of every case of `rows` that was asked for and has a repeat that finished, in the
/// order of the tables. `folder` is that of the results, with the traces in traces/. The evidence
/// points into `rows`.
std::vector<Evidence> evidence_of(const std::vector<RunRecord>& rows,
                                  const std::filesystem::path& folder);
/// The cases that were asked for and have no repeat that finished.
std::vector<runner::CaseSummary> failed_cases(const std::vector<RunRecord>& rows);
/// The evidence of one case. `repeats` are its records, which finished; at least one.
Evidence evidence_of_case(const runner::CaseSummary& summary,
                          const std::vector<const RunRecord*>& repeats,
                          const std::filesystem::path& folder);
/// Adds the evidence of a trace.
void add_trace(Evidence& evidence, TracedRun trace);

}  // namespace ringside::tools::explain
