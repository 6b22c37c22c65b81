// Tables and texts that are made from the records of runs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/run_record.h"
#include "core/sim/cluster.h"
#include "experiments/runner/registry/state_formula.h"
#include "experiments/runner/report/curves.h"
#include "experiments/runner/report/interval.h"
#include "experiments/runner/report/memory_summary.h"
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

/// The parts of a step's time, in milliseconds: each the median over the repeats.
struct CaseTimes {
  double compute = 0;
  double exposed = 0;
  /// The part of a worker's communication for which the worker does not wait: communication minus
  /// exposed, and 0 where a worker waits longer than it communicates.
  double hidden = 0;
  double optimizer = 0, data = 0, idle = 0, encoding = 0;
  double other = 0;  // data, idle and encoding
  double communication = 0;
};

Fields fields_of(CaseTimes& times);

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
  int repeats = 0, failed = 0;
  std::string error;  // cause of the first repeat that failed
  /// The number of repeats without an undisturbed attempt, the disturbance of the worst of them,
  /// and the number of attempts that do not count.
  int disturbed = 0;
  std::string disturbance;
  int superseded = 0;
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
  double bytes_sent_per_step = 0;   // of the busiest rank
  bool bytes_computed = false;      // not counted (Traffic::computed)
  double bytes_minimum_per_step = 0;
  /// The figures that the scheme reports. `max` is the largest one of all repeats.
  std::vector<RunFigure> figures;
  /// Of the repeat with the stalest gradient: the staleness of its gradients, and the steps of its
  /// workers if these differ.
  std::optional<RunStaleness> staleness{};
  std::vector<std::int64_t> worker_steps{};
  std::vector<std::string> lost_workers{};  // of all repeats
  MemorySummary memory;
  std::optional<CasePrediction> predicted{};
  std::string prediction_failure;                // why nothing was predicted
  std::optional<StateBytes> state_by_formula{};  // nothing if all repeats failed
  double final_loss = 0;
  std::optional<Evaluation> held_out{};  // last one of the first repeat with the smallest seed
  std::optional<double> perplexity{};    // of `held_out`; nothing for images
  /// Of the first repeat with the smallest seed that finished.
  std::optional<LossCurve> loss_curve{}, held_out_curve{};
  std::optional<TimeToLoss> time_to_loss{};
  Utilization utilization{};
  CaseSetup setup{};
  Verdict verdict;

  const std::string& label() const { return plan.listing.label; }
  bool simulated() const { return plan.cluster.has_value(); }
  bool finished() const { return failed < repeats; }  // at least one repeat
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
