// RunRecord: the record of one run. Everything that is printed or plotted is a function of these
// records.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/observe/machine_load.h"
#include "core/observe/rank_record.h"
#include "core/observe/run_record_parts.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The fields are explained in docs/reading-results.md, "Rows of rows.jsonl". Warm-up steps and
/// evaluations are left out of every figure about time. step_ms is that of the worker whose median
/// is largest; samples_per_s is the number of samples of all measured steps, divided by the time
/// that the slowest worker needs for these steps. The times in time_ms, except serving_optimizer,
/// are means over workers and measured steps: compute + exposed + optimizer + data + encoding +
/// idle is the mean time of a step. (communication is not in this sum, because it overlaps the
/// other activities.)
struct RunRecord {
  static constexpr int schema = 19;
  RunPlan plan;
  std::int64_t parameters = 0;
  std::vector<double> loss;        // of the global batch, per step
  std::int64_t skipped_steps = 0;  // steps that changed nothing: gradients were not finite
  std::vector<Evaluation> evaluations;
  /// Hashes of the parameters of all replicas, in the order of their workers; a single one if all
  /// workers hold the same parameters. Empty if nothing was computed.
  std::vector<std::string> parameter_hashes;
  RunParameters at_end;
  double samples_per_s = 0, tokens_per_s = 0;
  Quantiles step_ms;
  struct {
    double compute = 0, communication = 0, exposed = 0, optimizer = 0, data = 0, encoding = 0;
    double idle = 0;
    /// Time of the busiest serving rank, or of the busiest host to which ranks offload, in the
    /// optimizer. Workers may wait for it, so this time may be a part of `exposed`.
    double serving_optimizer = 0;
  } time_ms;
  /// The average number of processor cores at work during the measured steps: processor seconds of
  /// all ranks divided by the wall time of the slowest worker. None for simulated ranks.
  std::optional<double> cores;
  std::vector<RankRecord> ranks;
  double bytes_minimum_per_step = 0;  // of the busiest rank
  /// None if no rank reports a staleness.
  std::optional<RunStaleness> staleness;
  /// The steps of each worker, if they differ.
  std::vector<std::int64_t> worker_steps;
  /// Of a run whose workers do not wait for each other: the held-out loss over time. A point for
  /// every evaluation of any worker, made of the latest shares of all workers; its step is the mean
  /// of theirs. (`evaluations` joins shares of the same step, which may be far apart in time.)
  std::vector<Evaluation> held_out_over_time;
  /// The ends of workers whose processes were killed while the run went on without them.
  std::vector<std::string> lost_workers;
  /// Workers that computed slower than the others, of runs on processors.
  std::vector<std::string> slow_workers;
  /// The failures after which the run was started again (FaultsConfig::restarts).
  std::vector<Restart> restarts;
  /// The worlds of a run whose workers come and go, one after the other; else empty.
  std::vector<WorldPeriod> worlds;
  /// Only for runs whose definition replays them.
  std::optional<Replay> replay;
  std::vector<RunFigure> figures;
  /// The work of a sample of full length, and the peak rate of a worker's device in products. The
  /// peak of a measured run is present if this machine has been calibrated; that of a simulated run
  /// comes from its cluster.
  std::optional<ModelWork> work;
  std::optional<Peak> measured_peak;
  std::optional<Prediction> predicted;
  /// Of a simulated run, if its cluster states how far off simulated times may be.
  std::optional<StepBounds> bounds;
  /// The other load of the machine during the run; none for simulated ranks.
  std::optional<MachineLoad> load;
  int attempt = 0;            // counted from 0; a disturbed run is repeated
  std::string status = "ok";  // "ok" or "failed"
  std::string error;
};

/// The number of workers at the end of the run.
inline int last_world(const RunRecord& row) {
  return row.worlds.empty() ? row.plan.world : row.worlds.back().world;
}

/// The run's evaluations in the order of time.
inline const std::vector<Evaluation>& held_out_curve(const RunRecord& row) {
  return row.held_out_over_time.empty() ? row.evaluations : row.held_out_over_time;
}

/// The largest memory peak of all ranks, in bytes.
std::int64_t memory_peak(const RunRecord& row);

/// Whether the bytes of any rank were computed by a closed form instead of counted
/// (Traffic::computed).
bool bytes_computed(const RunRecord& row);
/// Whether the bytes of every rank are known.
bool bytes_known(const RunRecord& row);

/// The perplexity of the loss's first term, which is over tokens; none for images.
std::optional<double> perplexity(const RunRecord& row, const Evaluation& evaluation);

/// The cause of a disturbance in words (core/observe/machine_load.h). Empty for a run that was not
/// disturbed, that failed, or whose ranks were simulated.
std::string disturbance(const RunRecord& row);
/// The share of processor time that the run lost to disturbances; 0 without any.
double lost_share(const RunRecord& row);

/// Makes the record of a run that finished; `records` are in rank order.
RunRecord make_row(const RunPlan& plan, std::vector<RankRecord> records);
/// Makes the record of a run that did not finish.
RunRecord failed_row(const RunPlan& plan, const std::string& error);

/// Writes the record's own fields and every field of its plan.
nlohmann::ordered_json to_json(const RunRecord& row);
/// Reads a record that to_json() wrote, without the figures of single steps. Throws Error if it has
/// another schema, nlohmann::json::exception if `in` is no record.
RunRecord row_from_json(const nlohmann::json& in, const DefaultOptions& defaults);

}  // namespace ringside
