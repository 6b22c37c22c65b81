#include "experiments/runner/run/cost_of_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/plan/checkpoint_interval.h"
#include "core/plan/places.h"

namespace ringside::runner {
namespace {

constexpr double giga = 1e9;

double interval_s(const RunRecord& row, double best_s) {
  const CheckpointTimes times = times_of_checkpoint(row);
  return std::max(best_s, times.write_s);
}

}  // namespace

CheckpointTimes times_of_checkpoint(const RunRecord& row) {
  CheckpointTimes out;
  for (const RankRecord& rank : row.ranks) {
    if (!rank.checkpoints || rank.checkpoints->written == 0) continue;
    const CheckpointCost& cost = *rank.checkpoints;
    const auto written = static_cast<double>(cost.written);
    out.bytes += cost.bytes;
    out.stall_s = std::max(out.stall_s, cost.stall_s / written);
    out.write_s = std::max(out.write_s, cost.write_s / written);
  }
  return out;
}

double seconds_of_step(const RunRecord& row) {
  if (row.samples_per_s <= 0) return 0;
  return static_cast<double>(row.plan.train.global_batch) / row.samples_per_s;
}

double seconds_to_read(const RunRecord& row) {
  const sim::ClusterSpec& cluster = *row.plan.cluster;
  std::map<int, double> of_machine;
  double all = 0, longest_copy_s = 0;
  for (std::size_t r = 0; r < row.ranks.size(); ++r) {
    if (!row.ranks[r].checkpoints) continue;
    const auto bytes = static_cast<double>(row.ranks[r].checkpoints->read_bytes);
    const sim::Place place = place_of(row.plan, static_cast<int>(r));
    of_machine[place.machine] += bytes;
    all += bytes;
    if (place.device >= 0)
      longest_copy_s = std::max(longest_copy_s, bytes / (cluster.pcie.gbs * giga));
  }
  double seconds = cluster.storage.shared_gbs > 0 ? all / (cluster.storage.shared_gbs * giga) : 0;
  for (const auto& [machine, bytes] : of_machine)
    seconds = std::max(seconds, bytes / (cluster.storage.gbs * giga));
  return seconds + longest_copy_s;
}

std::int64_t best_every(const RunRecord& row, double mtbf_s) {
  const double step_s = seconds_of_step(row);
  const CheckpointTimes times = times_of_checkpoint(row);
  if (times.bytes == 0 || step_s <= 0) return 0;
  const double best_s = interval_s(row, daly_interval_s(times.stall_s, mtbf_s));
  return std::max<std::int64_t>(1, std::llround(best_s / step_s));
}

void add_best_interval(RunRecord& row, double mtbf_s) {
  const CheckpointTimes times = times_of_checkpoint(row);
  const std::int64_t every = best_every(row, mtbf_s);
  if (every == 0) return;
  const auto add = [&](const char* name, const char* unit, double value) {
    row.figures.push_back({name, unit, value, value});
  };
  add("best interval (Young)", "s", interval_s(row, young_interval_s(times.stall_s, mtbf_s)));
  add("best interval (Daly)", "s", interval_s(row, daly_interval_s(times.stall_s, mtbf_s)));
  add("best checkpoint.every", "steps", static_cast<double>(every));
}

}  // namespace ringside::runner
