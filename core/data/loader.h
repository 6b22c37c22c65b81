// The batches that a step is made of.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/device/device.h"

namespace ringside {

/// Inputs and targets of some samples, kind data. A scheme whose master keeps the targets has
/// workers with an empty `targets`.
struct Batch {
  Tensor inputs;   // [B, ...]
  Tensor targets;  // [B, ...] int32; of several parts: flat, part after part
};

/// Samples [first, first + count) of the global batch of a step.
struct BatchSlice {
  std::int64_t step = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const BatchSlice&) const = default;
};

/// What a worker that takes `slice` as one of its `micro_batches` a step takes after it.
BatchSlice next_slice(const BatchSlice& slice, std::int64_t micro_batch,
                      std::int64_t micro_batches);

/// Makes the batches of a run: sample j of step s is the same whoever asks for it.
class Loader {
 public:
  /// When samples are read: when they are asked for, or as soon as they are expected, by a thread
  /// of the loader's own. No such thread may be in a simulated world.
  enum class Reading : std::uint8_t { when_asked, ahead };

  /// Both must outlive the loader. Throws Error for less than a batch of samples; an incomplete
  /// last batch of an epoch is dropped.
  Loader(const Dataset& dataset, Device& device, std::int64_t global_batch, std::uint64_t seed,
         Reading reading = Reading::when_asked);
  /// Waits for the batch that is being read, if there is one.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// New tensors of kind data: [count, sample's extents]. Safe from several threads. Waits for an
  /// expected batch that is not there yet; throws what reading it threw.
  Batch read(const BatchSlice& slice) const;

  /// This slice will be asked for. With Reading::ahead its memory is taken now, in this thread, so
  /// that peaks do not depend on when it is filled, and held until read() or the loader's end; it
  /// is filled beside compute. Does not wait. Safe from several threads.
  void expect(const BatchSlice& slice) const;

  /// Whole batches in the data set.
  std::int64_t batches() const { return sampler_.steps_per_epoch(); }

 private:
  class Ahead;

  Batch allocate(const BatchSlice& slice) const;
  /// Through `upload`; null: through the device's queue.
  void fill(const BatchSlice& slice, const Batch& batch, Upload* upload) const;

  const Dataset& dataset_;
  Device& device_;
  std::int64_t global_batch_;
  std::uint64_t seed_;
  Sampler sampler_;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace ringside
