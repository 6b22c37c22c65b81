// Row: the record of one run. Everything that is printed or plotted is a function of rows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/machine_load.h"
#include "core/observe/record.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// What a simulation of this machine says of a run.
struct Prediction {
  double step_ms = 0;
  std::int64_t memory_peak = 0;  // bytes, of the rank with the largest
  std::string error{};           // why there is none; the others are 0 then
};

struct Quantiles {
  double median = 0, p10 = 0, p90 = 0;
};

/// Nearest rank among the sorted values: an observed value, the lower one of two in the middle.
/// All 0 for no values.
Quantiles quantiles(std::vector<double> values);

/// Fields in the order and with the names of the contract (ARCHITECTURE.md, "The contract of a
/// run"). Warm-up steps and evaluations are left out of every figure about time. step_ms is that of
/// the worker whose median is largest; samples_per_s are the samples of all measured steps over the
/// sum of their times, of the worker with the largest sum. The shares of a step are means over
/// workers and measured steps, so compute + exposed + optimizer + data + idle is the mean step
/// (communication runs beside them).
struct Row {
  static constexpr int schema = 3;
  RunPlan plan;
  std::int64_t parameters = 0;
  std::vector<double> loss;        // of the global batch, per step
  std::int64_t skipped_steps = 0;  // whose gradients overflowed (fp16)
  std::vector<RankRecord::Evaluation> evaluations;
  std::string parameter_hash;
  double samples_per_s = 0, tokens_per_s = 0;
  Quantiles step_ms;
  struct {
    double compute = 0, communication = 0, exposed = 0, optimizer = 0, data = 0, idle = 0;
    /// Of the busiest serving rank; workers may wait for it, so it may be a part of `exposed`.
    double serving_optimizer = 0;
  } time_ms;
  /// Processor cores at work during the measured steps, on average: processor seconds of all ranks
  /// by the wall time of the slowest worker. None where ranks were simulated.
  std::optional<double> cores;
  std::vector<RankRecord> ranks;
  double bytes_minimum_per_step = 0;   // of the busiest rank
  std::optional<Staleness> staleness;  // of the rank with the largest; none where none reports it
  std::optional<Prediction> predicted;
  /// What else the machine did meanwhile; none where ranks were simulated.
  std::optional<MachineLoad> load;
  int attempt = 0;            // a run that was disturbed is made again
  std::string status = "ok";  // ok, failed
  std::string error;
};

/// Largest peak of a row's ranks, bytes.
std::int64_t memory_peak(const Row& row);

/// Whether bytes of any rank were not counted but computed by a closed form (Traffic::computed).
bool bytes_computed(const Row& row);

/// Of the first term of the loss, the one that says tokens; none for images.
std::optional<double> perplexity(const Row& row, const RankRecord::Evaluation& evaluation);

/// What disturbed the run (core/observe/machine_load.h); empty for a quiet one, a failed one, and
/// one whose ranks were simulated.
std::string disturbance(const Row& row);
/// How much of its processor time the run lost to others; 0 where nothing disturbed it.
double lost_share(const Row& row);

/// The row of a run that finished; `records` by rank.
Row make_row(const RunPlan& plan, std::vector<RankRecord> records);
/// The row of a run that did not.
Row failed_row(const RunPlan& plan, const std::string& error);

/// The row's own fields and every field of its plan.
nlohmann::ordered_json to_json(const Row& row);
/// A row that was written before, without what each rank recorded of each step. Throws Error for
/// another schema, nlohmann::json::exception for what is no row.
Row row_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

}  // namespace ringside
