// From rows to what people read. Runs nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/row.h"
#include "experiments/report/interval.h"
#include "experiments/report/memory_summary.h"
#include "experiments/report/verdict.h"

namespace ringside {

/// A rate by that of another case: the median over the repeats that both finished, of the ratio
/// within a repeat, whose runs are neighbours in time. Negative where it is not known or withdrawn.
struct Ratio {
  double median = -1;
  std::optional<Interval> interval{};  // none for a single repeat
};

/// All repeats of one case: one scheme at one world. Figures are medians over the repeats that
/// finished; of a run that was made several times one attempt counts
/// (experiments/results/attempts.h).
struct CaseSummary {
  std::string label;  // "ddp", "single x2"
  std::string scheme;
  Purpose purpose = Purpose::asked;
  Promise promise = Promise::same_run;
  int world = 1;
  int processes = 1;  // ranks: a world counts workers, dedicated servers come on top
  int repeats = 0, failed = 0;
  std::string error;    // of the first repeat that failed
  std::string cluster;  // of simulated runs
  std::string device;   // kind
  /// Ranks had one device between them: the run shows what is computed, and nothing about speed.
  bool shared_device = false;
  /// Repeats all of whose attempts were disturbed, what disturbed the worst of them, and how many
  /// attempts do not count.
  int disturbed = 0;
  std::string disturbance;
  int superseded = 0;
  double cores = -1;  // at work, on average; negative: simulated
  int gpus = 0;
  double samples_per_s = 0;
  double spread = 0;  // half of (most - least) samples/s, by the median
  /// Against `single`, and that by world. None where `single` was not compared, devices were
  /// shared, the run is another one than that of `single`, or it is only a reference. Nor where the
  /// scheme is an algorithm of its own: steps of two algorithms are worth different amounts, so
  /// their rates are not compared.
  Ratio speed_up;
  double efficiency = -1;
  /// Against `single` with the threads of the largest world (Purpose::all_cores).
  Ratio of_all_cores;
  double step_ms = 0, compute_ms = 0, exposed_ms = 0, optimizer_ms = 0;
  double data_ms = 0, idle_ms = 0, other_ms = 0;  // other: data and idle
  double bytes_sent_per_step = 0;                 // of the busiest rank
  bool bytes_computed = false;                    // by a closed form (Traffic::computed)
  double bytes_minimum_per_step = 0;
  MemorySummary memory;
  /// What a simulation of this machine said, and its error: predicted / measured - 1. Negative
  /// milliseconds: nothing.
  double predicted_ms = -1, predicted_ms_error = 0;
  double predicted_peak = -1, predicted_peak_error = 0;  // bytes
  std::string prediction_failure;                        // why there is none
  double final_loss = 0;
  std::optional<RankRecord::Evaluation> held_out{};  // the last one, of the first repeat
  std::optional<double> perplexity{};                // of that; none for images
  Verdict verdict;
};

/// One summary a case, in the order of RunPlan::line, but those of `single` first. Its baseline is
/// the case of `single` that was asked for with the fewest micro-batches.
std::vector<CaseSummary> summarise(const std::vector<Row>& rows);

/// Cases of one world whose speed-ups a comparison does not rank: each group's intervals have a
/// value in common. No group is part of another.
struct Tie {
  int world = 1;
  std::vector<std::string> labels;
};
std::vector<Tie> ties(const std::vector<CaseSummary>& cases);

nlohmann::ordered_json summary_json(const std::string& experiment,
                                    const std::vector<CaseSummary>& cases);

/// The tables of figures, of held-out losses and of memory, in Markdown with aligned columns, and
/// how to read them.
std::string summary_text(const std::vector<CaseSummary>& cases);

/// The main figures of one run, one a line.
std::string row_text(const Row& row);

}  // namespace ringside
