// From rows to what people read. Runs nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// Whether a run computed what its reference computed: `single` over the same micro-batches.
enum class Sameness : std::uint8_t {
  reference,      // it is one
  bit_identical,  // equal parameters at the end, equal losses and evaluations
  to_rounding,    // losses within largest_rounding() of each other, relatively
  different,
  not_computed,   // simulated without numerics
  unknown,        // no reference has finished
  own_algorithm,  // promised nothing else
};
/// How far losses of one training run may be apart because sums have another order: 1e-5 on the
/// CPU, 1e-4 on GPUs, whose libraries choose their own from call to call; 1e-2 for bf16, with its 8
/// bits.
double largest_rounding(const RunPlan& plan);
std::string_view name_of(Sameness sameness);

/// All repeats of one scheme at one world. Figures are medians over the repeats that finished.
struct CaseSummary {
  std::string label;  // "ddp", "single x2"
  std::string scheme;
  Promise promise = Promise::same_run;
  int world = 1;
  int processes = 1;            // ranks: a world counts workers, dedicated servers come on top
  bool only_reference = false;  // not asked for: it ran once, and its speed says nothing
  int repeats = 0, failed = 0;
  std::string error;    // of the first repeat that failed
  std::string cluster;  // of simulated runs
  std::string device;   // kind
  /// Ranks had one device between them: the run shows what is computed, and nothing about speed.
  bool shared_device = false;
  double samples_per_s = 0;
  double spread = 0;  // half of (most - least) samples/s, by the median
  /// Against the median of `single`, and that by world; negative: withdrawn or not known, as where
  /// `single` was not compared, devices were shared, or the scheme is an algorithm of its own:
  /// steps of two algorithms are worth different amounts, so their rates are not compared.
  double speed_up = -1, efficiency = -1;
  double step_ms = 0, compute_ms = 0, exposed_ms = 0, optimizer_ms = 0;
  double data_ms = 0, idle_ms = 0, other_ms = 0;  // other: data and idle
  double bytes_sent_per_step = 0;                 // of the busiest rank
  bool bytes_computed = false;                    // by a closed form (Traffic::computed)
  double bytes_minimum_per_step = 0;
  /// Of the rank with the largest peak of all repeats.
  int largest_rank = 0;
  MemoryUse at_peak;
  std::int64_t resident = 0;
  std::optional<DeviceMemory> device_memory{};
  /// What a simulation of this machine said, and its error: predicted / measured - 1. Negative
  /// milliseconds: nothing.
  double predicted_ms = -1, predicted_ms_error = 0;
  double predicted_peak = -1, predicted_peak_error = 0;  // bytes
  std::string prediction_failure;                        // why there is none
  double final_loss = 0;
  std::optional<RankRecord::Evaluation> held_out{};  // the last one, of the first repeat
  std::optional<double> perplexity{};                // of that; none for images
  Sameness sameness = Sameness::unknown;
  double difference = 0;  // largest relative one of training and held-out losses, over repeats
};

/// One summary a case: `single` first, then schemes in the order in which they appear, by world.
/// The speed of `single` is that of the rows that were asked for with the fewest micro-batches.
std::vector<CaseSummary> summarise(const std::vector<Row>& rows);

/// Largest |a - b| / |b| over the steps; infinite for losses of different length.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

nlohmann::ordered_json summary_json(const std::string& experiment,
                                    const std::vector<CaseSummary>& cases);

/// The table of figures and that of memory by kind, in Markdown with aligned columns, and how to
/// read them.
std::string summary_text(const std::vector<CaseSummary>& cases);

/// The main figures of one run, one a line.
std::string row_text(const Row& row);

}  // namespace ringside
