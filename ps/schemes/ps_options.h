// The options of the scheme "ps".
#pragma once

#include <algorithm>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/compress/compression.h"
#include "core/plan/run_plan.h"
#include "ps/protocol/partition.h"
#include "ps/protocol/server_config.h"
#include "ps/schemes/server_options.h"

namespace ringside::ps {

/// The moment when a worker of bsp reads new values: each part as soon as it is updated, while the
/// next forward runs; or all parts within the step, once all workers have pushed, as TensorFlow's
/// distributed_replicated does.
enum class Pull : std::uint8_t { overlapped, barrier };
inline constexpr std::string_view pull_names[] = {"overlapped", "barrier"};
constexpr EnumNames names_of(Pull) { return pull_names; }

struct PsOptions {
  std::int64_t servers = 2;
  Placement placement = Placement::dedicated;
  ServerDevice server_device = ServerDevice::same;
  Consistency consistency = Consistency::bsp;
  std::int64_t staleness_bound = 3;
  std::int64_t backup_workers = 0;
  StalenessLr staleness_lr = StalenessLr::none;
  double delay_compensation = 0;
  std::int64_t communication_period = 10;
  double moving_rate = 0;  // 0: 0.9 / N with N workers
  bool equal_steps = false;
  std::int64_t sum_group = 1;
  TransportKind transport = TransportKind::automatic;
  std::int64_t io_threads = 1;
  std::int64_t port = 0;
  /// Larger parts gain nothing; with smaller ones the additional messages cost more than the
  /// overlap of push and pull saves.
  double partition_mb = 1;
  PartitionBy partition_by = PartitionBy::parts;
  Pull pull = Pull::overlapped;
  Reach reach{};
  CompressionOptions compression{};  // of pushes
  std::string pull_compressor{no_compressor};
};

Fields fields_of(PsOptions& options);

/// Throws Error for option values that are not allowed, and for a plan with which the consistency
/// has no meaning.
void check(const PsOptions& options, const RunPlan& plan);
/// The rules by which servers keep workers in step.
ConsistencyRules rules_of(const PsOptions& options);
/// Whether no worker goes on before all have pushed.
bool is_synchronous(const PsOptions& options);
/// The promise of a run: the result of `single`, if nothing is compressed; or a result that depends
/// on the order of events, which only the run's own record has.
Promise promise_of(const PsOptions& options);

/// The number of consecutive workers that add up their gradients before they push: the option, but
/// at most `world`.
inline int sum_group_of(const PsOptions& options, int world) {
  return static_cast<int>(std::min<std::int64_t>(options.sum_group, world));
}

inline ServerCounts count_servers(const PsOptions& options, int world) {
  ServerCounts counts = count_servers(options.placement, options.servers, world);
  counts.group = sum_group_of(options, world);
  return counts;
}

/// EASGD's moving rate in a run with `workers` workers.
double moving_rate_of(const PsOptions& options, int workers);

/// The number of workers that a run can lose and still go on: the backup workers; with asp, easgd,
/// and ssp with a bound above 0, all but one; else none.
int expendable_workers(const PsOptions& options, int world);

}  // namespace ringside::ps
