// Pass: one forward, and in training one backward, of the model on one micro-batch.
#pragma once

#include <cstdint>

namespace ringside {

struct Pass {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;  // within this rank's step; the first of several
  std::int64_t micro_batches = 1;
  /// The number of ranks whose micro-batches are computed at once, the samples of one rank after
  /// those of the other. More than 1 in a definition, where one rank computes for all ranks
  /// whose batch norms are joined. Sums over samples are made for each rank by itself, so that they
  /// have the bits of that rank's sums.
  std::int64_t ranks = 1;
  /// True: dropout drops values, and batch norm uses the statistics of the batch. False
  /// (evaluation): dropout keeps all values, and batch norm uses its running statistics.
  bool training = true;
  /// Whether forward keeps what backward needs.
  bool keep = true;
  /// Whether layers of attention keep what a forward with `keep` computes. If not, backward
  /// recomputes it from the input of their block (core/nn/attention.h).
  bool keep_attention = true;
  /// Whether this forward repeats an earlier forward of the same step (recomputation). Running
  /// statistics must not count the batch again.
  bool again = false;
  /// Whether backward computes gradients of inputs first and those of parameters later
  /// (core/nn/saved.h).
  bool halves = false;
  /// Position of this micro-batch's first sample in the global batch: dropout depends on it.
  std::int64_t first_sample = 0;
  std::uint64_t seed = 0;

  bool last() const { return micro_batch + ranks == micro_batches; }
};

/// Keeps nothing for backward and drops nothing.
inline constexpr Pass evaluation{.training = false, .keep = false};

}  // namespace ringside
