// RankRecord: the report of one rank when its part of a run is over.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/base/traffic.h"
#include "core/device/device.h"
#include "core/observe/loss_value.h"
#include "core/observe/model_work.h"
#include "core/observe/pipeline_record.h"
#include "core/observe/slice.h"
#include "core/observe/staleness.h"
#include "core/observe/timeline.h"
#include "core/plan/history.h"
#include "core/sim/device_spec.h"

namespace ringside {

/// A figure that a scheme reports of itself: {"consensus distance", "relative", 0.01}. The names of
/// one scheme's figures differ.
struct SchemeFigure {
  std::string name;
  std::string unit;
  double value = 0;
};

/// Memory of the host that a rank holds for its offloaded state.
struct HostMemory {
  MemoryUse at_peak;
};

/// A rank's measurements between its host and others (Purpose::links). Bandwidth and steps are
/// those of collectives of one rank on each host; messages go to a server, which lives on the host
/// of worker 0.
struct LinkTimes {
  double gbs = 0;                   // each way at once, into and out of a host
  double step_us = 0;               // a step of a collective that moves next to nothing
  double collective_us_per_mb = 0;  // core time of each end; MB = 1e6 bytes
  double message_wall_us = 0;       // from send() until the other end has a small message
  double message_us = 0, message_us_per_mb = 0;  // core time of each end
};

/// A rank's part of a run's checkpoints.
struct CheckpointCost {
  std::int64_t resumed_after = 0;  // steps of the checkpoint from which the run went on; 0: none
  std::int64_t written = 0;        // checkpoints
  std::int64_t bytes = 0;          // of this rank's part of one
  std::int64_t read_bytes = 0;     // of a simulated rank: what it reads to go on from one
  double stall_s = 0;              // training waited for them: all together
  double write_s = 0;              // from the end of a step until all ranks' parts are on the disk
  std::string failure{};           // why the last one that failed could not be written; empty: none
  std::string note{};  // what the run did not take over of that from which it went on; empty: none
};

struct RankRecord {
  int rank = 0;
  std::string role;
  std::string host;
  /// `losses`: this rank's share of the loss of every micro-batch, step after step. `steps`: where
  /// the time of each step went. Both are empty for ranks that only serve.
  std::vector<double> losses;
  std::vector<StepTime> steps;
  /// The place of each loss (number of its step times micro-batches of a step + its micro-batch),
  /// if the rank did not compute all micro-batches in order; else empty.
  std::vector<std::int64_t> loss_places{};
  /// The number of steps that changed nothing because gradients were not finite.
  std::int64_t skipped_steps = 0;
  /// The number of steps that a worker had done when its process was killed, the only figure of
  /// such a worker; or that all processes in its seat have done.
  std::int64_t lost_after = 0;
  /// The world changed, and the rank has left its generation, or the worker its seat: it has
  /// nothing to report.
  bool left = false;
  /// Processor seconds of all threads of the rank's process during the measured steps.
  double processor_s = 0;
  /// The time per step that a serving rank, or the host to which a rank offloads, spends in the
  /// optimizer, in milliseconds.
  double serving_optimizer_ms = 0;
  /// Mean bytes per measured step.
  double bytes_sent_per_step = 0;
  double bytes_received_per_step = 0;
  bool bytes_computed = false;  // computed by a closed form, not counted (Traffic::computed)
  bool bytes_known = true;      // otherwise the bytes are 0: another program's, not counted
  /// Time and bytes of all evaluations of a worker together; evaluations lie outside of steps.
  double evaluation_s = 0;
  Traffic evaluation_bytes;
  MemoryUse at_peak;
  std::optional<HostMemory> host_memory{};      // none if nothing is offloaded
  std::optional<CheckpointCost> checkpoints{};  // none if the run writes none and goes on from none
  std::optional<PipelineRecord> pipeline{};     // of a worker that has some stages of the model
  /// `rss`: the largest resident set; `rss_of_peers`: how much of the present resident set is
  /// memory of other processes that this process maps, and their parts of arrays that all share.
  /// In bytes, at the end of the last step.
  std::int64_t rss = 0;
  std::int64_t rss_of_peers = 0;
  /// Memory of a device that has its own, as the device's driver counts it at the end of the last
  /// step.
  std::optional<DeviceMemory> device_memory{};
  /// Tokens of one sample; 0 for data without tokens (images). The mean over all samples of the
  /// measured steps if these differ in length; padding does not count.
  double tokens_per_sample = 0;
  /// The number of the model's elements, and the least bytes that the busiest rank of the run must
  /// send in a step.
  std::int64_t parameters = 0;
  double minimum_bytes_per_step = 0;
  std::optional<ModelWork> work{};  // reported by rank 0
  /// Hashes of the parameters that a worker shows at the end (SyncScheme::visit_parameters),
  /// XXH3-128 in hexadecimal: one for each of its replicas, of which the first has this number.
  std::vector<std::string> parameter_hashes;
  std::int64_t first_replica = 0;
  /// Hashes of blocks of these parameters (core/observe/parameter_digest.h), if it is one replica.
  std::string parameter_blocks{};
  /// Elements [first, first + second) of the model that this worker keeps, if others keep the rest.
  std::vector<std::pair<std::int64_t, std::int64_t>> kept{};
  /// The contribution of this rank's samples to an evaluation.
  struct Evaluation {
    std::int64_t step = 0;
    std::int64_t first = 0;           // the first micro-batch
    std::vector<LossValue> shares{};  // of every micro-batch from there on
    double seconds = 0;               // since the beginning of the first step
  };
  std::vector<Evaluation> evaluations;
  /// Of a server whose gradients may be stale; else none.
  std::optional<Staleness> staleness{};
  /// Of such a server: the history of each of its ranges, from which the run can be replayed.
  std::vector<ChunkHistory> history{};
  /// The figures of the rank's scheme.
  std::vector<SchemeFigure> figures{};
  /// Of a run that times operations (Purpose::timing): the operations of a step in order, and
  /// copies, sums and updates of pieces of the model, each with the median of its times in
  /// `TimedOperation::us`. A rank does not know the other members of an entry.
  std::vector<sim::TimedOperation> operations{}, pieces{};
  /// Of the first and the last worker of a run that times links (Purpose::links).
  std::optional<LinkTimes> links{};
  /// Spans of the last steps, and the use of the rank's memory during them, for a trace.
  std::vector<Slice> slices;
  std::vector<MemorySample> memory{};
};

Fields fields_of(StepTime& step);
Fields fields_of(MemoryUse& use);
Fields fields_of(DeviceMemory& memory);
Fields fields_of(HostMemory& memory);
Fields fields_of(CheckpointCost& cost);
Fields fields_of(SchemeFigure& figure);
Fields fields_of(RankRecord::Evaluation& evaluation);
Fields fields_of(LinkTimes& times);

/// The figures of a rank that become part of a RunRecord; figures of single steps do not.
Fields row_fields_of(RankRecord& record);
/// All figures, which a rank sends to its launcher.
Fields fields_of(RankRecord& record);

}  // namespace ringside
