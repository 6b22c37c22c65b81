// Pass: one forward, and in training one backward, of the model on one micro-batch.
#pragma once

#include <cstdint>

namespace ringside {

struct Pass {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;  // within this rank's step
  std::int64_t micro_batches = 1;
  /// With dropout, and batch norm by the statistics of the batch; without, as in evaluation.
  bool training = true;
  /// Forward keeps what backward needs.
  bool keep = true;
  /// A forward of the step's once more, for what it did not keep: statistics count once.
  bool again = false;
  /// Where this micro-batch stands in the global batch: what is dropped depends on it.
  std::int64_t first_sample = 0;
  std::uint64_t seed = 0;

  bool last() const { return micro_batch + 1 == micro_batches; }
};

/// Keeps nothing, drops nothing.
inline constexpr Pass evaluation{.training = false, .keep = false};

}  // namespace ringside
