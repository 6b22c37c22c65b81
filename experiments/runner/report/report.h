// Tables and texts that are made from the records of runs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/run_record.h"
#include "experiments/runner/registry/state_formula.h"
#include "experiments/runner/report/case_parts.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/report/memory_summary.h"
#include "experiments/runner/report/pipeline_summary.h"
#include "experiments/runner/report/setup.h"
#include "experiments/runner/report/time_to_loss.h"
#include "experiments/runner/report/utilization.h"
#include "experiments/runner/report/verdict.h"

namespace ringside::runner {

/// The rate of a case divided by that of another: the median of the ratios of all repeats that both
/// cases finished. Only runs of the same repeat are compared, because they ran at nearly the same
/// time.
/// Negative if the ratio is not known or must not be stated.
struct Ratio {
  double median = -1;
  std::optional<Interval> interval{};  // nothing for a single repeat
};

/// The prediction by a simulation of this machine, and its errors: predicted / measured - 1.
struct CasePrediction {
  double step_ms = 0, step_ms_error = 0;
  double memory_peak = 0, memory_peak_error = 0;  // bytes
};

Fields fields_of(CasePrediction& prediction);

/// The summary of one case, that is all repeats of one scheme at one world. Figures are medians
/// over the repeats that finished. If a run was made several times, one attempt counts
/// (experiments/runner/results/attempts.h).
struct CaseSummary {
  RunPlan plan;  // of the repeat with the smallest seed, without `history`
  CaseRuns runs;
  std::optional<double> cores{};  // average number at work; nothing if simulated
  double samples_per_s = 0;
  std::optional<double> tokens_per_s{};  // nothing for images
  double spread = 0;  // half of (largest - smallest) samples/s, divided by the median
  /// The speed-up against `single`, and the speed-up divided by world. Neither is known if `single`
  /// was not compared, devices were shared, the case is not the same training run as `single`, or
  /// the case is only a reference. Schemes with an algorithm of their own have neither, because
  /// steps of two algorithms are worth different amounts.
  Ratio speed_up;
  int baseline = -1;  // the line of that `single` (RunPlan::line); -1 if there is none
  /// Whether that `single` has another global batch, so that the speed-up is one per sample only.
  bool other_batch = false;
  std::optional<double> efficiency{};
  /// The speed-up against `single` with the threads of the largest world (Purpose::all_cores).
  Ratio of_all_cores;
  /// The interval, in milliseconds, of the step of the run or of its prediction, if no error
  /// exceeds the one that its cluster states.
  std::optional<Interval> simulated_ms{};
  double step_ms = 0;
  CaseTimes time_ms{};
  std::optional<double> overlap{};  // hidden / communication; nothing where none is communicated
  CaseBytes bytes;
  CaseReports reports;
  MemorySummary memory;
  std::optional<PipelineSummary> pipeline{};  // of a case whose workers have stages of the model
  std::optional<CasePrediction> predicted{};
  std::string prediction_failure;                // why nothing was predicted
  std::optional<StateBytes> state_by_formula{};  // nothing if all repeats failed
  CaseLosses losses;
  std::optional<TimeToLoss> time_to_loss{};
  Utilization utilization{};
  CaseSetup setup{};
  Verdict verdict;

  const std::string& label() const { return plan.listing.label; }
  bool simulated() const { return plan.cluster.has_value(); }
  bool finished() const { return runs.finished() > 0; }  // at least one repeat
};

/// Returns one summary for each case, in the order of RunPlan::line, except that cases of `single`
/// come first. Speed-ups are taken against a case of `single` that was asked for and does the same
/// work: of several the one with the same global batch, then with the fewest micro-batches.
std::vector<CaseSummary> summarise(const std::vector<RunRecord>& rows);

/// Cases of one world that a comparison cannot rank, because the intervals of their speed-ups have
/// a value in common. Those of simulated cases follow from CaseSummary::simulated_ms. No group of
/// cases is part of another group.
struct Tie {
  int world = 1;
  std::vector<std::string> labels;
};
std::vector<Tie> ties(const std::vector<CaseSummary>& cases);

nlohmann::ordered_json summary_json(const std::string& experiment,
                                    const std::vector<CaseSummary>& cases);

/// The tables of figures, held-out losses, figures of schemes and memory, in Markdown with aligned
/// columns, and an explanation of their columns.
std::string summary_text(const std::vector<CaseSummary>& cases);

/// The main figures of one run, one on each line.
std::string row_text(const RunRecord& row);

}  // namespace ringside::runner
