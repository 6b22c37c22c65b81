// The loader: makes the batches of every step.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/device/device.h"

namespace ringside {

/// Inputs and targets of some samples; both tensors are in memory of MemoryKind::data. In a scheme
/// whose master keeps the targets and computes the loss, the batches of the workers have empty
/// `targets`.
struct Batch {
  Tensor inputs;  // [B, ...]
  /// int32: [B, ...], or, if the loss has several terms, one-dimensional: the targets of all
  /// samples for the first term, then those for the second term, and so on.
  Tensor targets;
};

/// The shape of a batch of `count` samples that all have the shape `sample`, which has 1 to 3
/// extents; otherwise throws Error.
Shape stacked(std::int64_t count, const Shape& sample);

/// Samples [first, first + count) of the global batch of a step.
struct BatchSlice {
  std::int64_t step = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const BatchSlice&) const = default;
};

/// Makes the batches of a run. Sample j of step s is the same on every rank and for any number of
/// ranks.
class Loader {
 public:
  /// The time at which samples are read: when read() asks for them, or ahead, after expect(), by a
  /// thread of the loader. A simulated world must not use Reading::ahead.
  enum class Reading : std::uint8_t { when_asked, ahead };

  /// The dataset and the device must outlive the loader. Throws Error if the dataset has fewer
  /// samples than one global batch. An incomplete last batch of an epoch is dropped.
  Loader(const Dataset& dataset, Device& device, std::int64_t global_batch, std::uint64_t seed,
         Reading reading = Reading::when_asked);
  /// Waits until the batch that is being read, if any, is finished.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Returns new tensors of kind data with shape [count, extents of a sample]; if samples differ in
  /// length, these are the extents of the longest sample of the slice. If expect()
  /// announced the slice, waits until the loader's thread has read it, and rethrows an error of
  /// that thread. Thread-safe.
  Batch read(const BatchSlice& slice) const;

  /// Announces that this slice will be read. With Reading::ahead the calling thread allocates the
  /// batch's memory at once, so that memory peaks do not depend on timing, and the loader's thread
  /// fills it while the device computes; the loader holds the memory until read() returns the batch
  /// or the loader ends. Does not block. Thread-safe.
  void expect(const BatchSlice& slice) const;

  /// The number of targets of the slice's samples, if samples differ in length; else 0. Costs about
  /// a microsecond a sample.
  std::int64_t targets(const BatchSlice& slice) const;

  /// Number of whole global batches in the data set.
  std::int64_t batches() const { return sampler_.steps_per_epoch(); }

 private:
  class Ahead;

  Batch allocate(const BatchSlice& slice) const;
  /// Sample `i` of the slice, by its number in the data set.
  std::int64_t sample(const BatchSlice& slice, std::int64_t i) const {
    return sampler_.sample(slice.step, slice.first + i);
  }
  /// Reads the samples of the slice and copies them to the batch through `upload`, or through the
  /// device's queue if `upload` is null.
  void fill(const BatchSlice& slice, const Batch& batch, Upload* upload) const;

  const Dataset& dataset_;
  Device& device_;
  std::int64_t global_batch_;
  std::uint64_t seed_;
  Sampler sampler_;
  std::unique_ptr<Ahead> ahead_;
};

}  // namespace ringside
