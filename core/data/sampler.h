// The order of samples: those of each step, and each rank's part of them.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// The order of a data set's samples in each epoch, and their division among ranks. The rules are
/// those of PyTorch's DistributedSampler: (seed, epoch) selects a permutation; the parts of the
/// ranks are disjoint and of equal size; if the number of samples is no multiple of the global
/// batch, either the last samples of the epoch are dropped or the epoch is padded with its first
/// samples. Unlike in PyTorch, a rank takes a contiguous slice of each global batch, so that sample
/// j of step s does not depend on the number of ranks.
class Sampler {
 public:
  enum class Tail : std::uint8_t { drop, pad };

  /// Throws Error if there are no samples or, with Tail::drop, fewer than one global batch.
  Sampler(std::int64_t size, std::int64_t global_batch, std::uint64_t seed, bool shuffle = true,
          Tail tail = Tail::drop);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// Index in the data set of sample j of a step's global batch. Steps are counted through all
  /// epochs.
  std::int64_t sample(std::int64_t step, std::int64_t j) const;

  /// The samples that `rank` takes in one epoch, in the order of the steps, if there are `world`
  /// ranks. `world` must divide the global batch.
  std::vector<std::int64_t> epoch_of_rank(std::int64_t epoch, int rank, int world) const;

 private:
  std::int64_t size_, global_batch_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t steps_per_epoch_;
};

}  // namespace ringside
