#include "core/data/sampler.h"

#include <cassert>

#include "core/base/error.h"
#include "core/num/random.h"

namespace ringside {

Sampler::Sampler(std::int64_t size, std::int64_t global_batch, std::uint64_t seed, bool shuffle,
                 Tail tail)
    : size_(size), global_batch_(global_batch), seed_(seed), shuffle_(shuffle) {
  if (global_batch < 1)
    throw Error("train.global_batch = {} is too small; it has to be 1 or more", global_batch);
  if (size < 1) throw Error("data: there are no samples; give more data");
  if (tail == Tail::drop && size < global_batch)
    throw Error(
        "data: {} samples do not fill a global batch of {}; give more data or lower "
        "train.global_batch",
        size, global_batch);
  steps_per_epoch_ =
      tail == Tail::drop ? size / global_batch : (size + global_batch - 1) / global_batch;
}

std::int64_t Sampler::sample(std::int64_t step, std::int64_t j) const {
  assert(step >= 0 && j >= 0 && j < global_batch_);
  const std::int64_t epoch = step / steps_per_epoch_;
  // With Tail::pad the last batch of an epoch may go beyond the last sample; it then starts over at
  // the first (several times if necessary).
  const std::int64_t place = ((step % steps_per_epoch_) * global_batch_ + j) % size_;
  if (!shuffle_) return place;
  return static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(place),
                                            static_cast<std::uint64_t>(size_), seed_,
                                            static_cast<std::uint64_t>(epoch)));
}

std::vector<std::int64_t> Sampler::epoch_of_rank(std::int64_t epoch, int rank, int world) const {
  if (world < 1 || rank < 0 || rank >= world || global_batch_ % world != 0)
    throw Error(
        "data: rank {} of {}: a global batch of {} cannot be divided equally among the ranks", rank,
        world, global_batch_);
  const std::int64_t part = global_batch_ / world;
  std::vector<std::int64_t> samples;
  samples.reserve(static_cast<std::size_t>(steps_per_epoch_ * part));
  for (std::int64_t step = 0; step < steps_per_epoch_; ++step)
    for (std::int64_t j = 0; j < part; ++j)
      samples.push_back(sample(epoch * steps_per_epoch_ + step, rank * part + j));
  return samples;
}

}  // namespace ringside
