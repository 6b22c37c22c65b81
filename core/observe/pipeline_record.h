// PipelineRecord: where the time of a rank's stages went.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/fields.h"

namespace ringside {

/// One stage of a rank, over the measured steps. Times are means of one action on one micro-batch,
/// in milliseconds, without waits for workers of the same stage; 0: the schedule has no such
/// actions.
struct StageRecord {
  std::int64_t stage = 0;
  double forward_ms = 0;
  double backward_ms = 0;        // both halves at once
  double input_gradient_ms = 0;  // the halves of backward
  double weight_gradient_ms = 0;
  std::int64_t most_under_way = 0;  // micro-batches between their forward and the end of backward
};

struct PipelineRecord {
  std::vector<StageRecord> stages{};
  /// How long the rank waits in a step for values and tables of other stages, and until they have
  /// taken its own, on average, in milliseconds: the bubble, what the stages differ by, and sends
  /// that are not hidden.
  double waiting_ms = 0;
  double bytes_sent_per_step = 0;  // over the borders of its stages, with tables
  /// The most bytes of activations that the rank held at a time, without those that only waited to
  /// be sent, or were received ahead of their use (Ledger::most); 0: the record is older.
  std::int64_t most_activations = 0;
  /// Steps of the whole run whose update was put right once the sums over stages were known
  /// (pipeline.post_validation).
  std::int64_t put_right = 0;
};

Fields fields_of(StageRecord& stage);
Fields fields_of(PipelineRecord& record);

}  // namespace ringside
