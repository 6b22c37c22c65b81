// Samples, and the batches that a step is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/data/sampler.h"
#include "core/device/device.h"

namespace ringside {

/// The [data] table of an experiment file.
struct DataConfig {
  std::string kind = "text";
  std::vector<std::string> path;
  double holdout = 0.1;
};

template <class Visitor>
void visit_fields(DataConfig& c, Visitor&& v) {
  v("kind", c.kind, "which data set (see `ringside list`)");
  v("path", c.path, "text: a file or folder, or a list of them; relative to the experiment file");
  v("holdout", c.holdout, "share of the data, its last part, kept for evaluation");
}

/// What a model learns to say of a sample.
enum class Task : std::uint8_t {
  every_token,    // int32 [T] -> the token that follows each position
  last_token,     // int32 [T] -> the token that follows the last
  masked_tokens,  // int32 [2 T + P]: tokens, their segments, masked positions -> the P tokens that
                  // stood there; whether the second segment follows the first (0) or not (1)
  image_class     // fp32 [H, W, C] -> its class
};

/// Inputs and targets of some samples, kind data. A scheme whose master keeps the targets has
/// workers with an empty `targets`.
struct Batch {
  Tensor inputs;   // [B, ...]
  Tensor targets;  // [B, ...] int32; of several parts: flat, part after part
};

/// A fixed list of samples; safe to read from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  /// One sample's extents and element type.
  virtual Shape input_shape() const = 0;
  virtual DType input_dtype() const = 0;
  virtual Shape target_shape() const = 0;
  /// How many targets of a sample belong to each term of the loss, one term after the other.
  virtual std::vector<std::int64_t> target_parts() const { return {target_shape().count()}; }
  /// Writes one sample; the spans have the sizes that the shapes say.
  virtual void read(std::int64_t sample, std::span<std::byte> input,
                    std::span<std::int32_t> target) const = 0;
};

/// Samples [first, first + count) of the global batch of a step.
struct BatchSlice {
  std::int64_t step = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Makes the batches of a run: sample j of step s is the same whoever asks for it.
class Loader {
 public:
  /// Both must outlive the loader. Throws Error for less than a batch of samples; an incomplete
  /// last batch of an epoch is dropped.
  Loader(const Dataset& dataset, Device& device, std::int64_t global_batch, std::uint64_t seed);
  /// New tensors of kind data: [count, sample's extents]. Safe from several threads.
  Batch read(const BatchSlice& slice) const;
  /// Whole batches in the data set.
  std::int64_t batches() const { return sampler_.steps_per_epoch(); }

 private:
  const Dataset& dataset_;
  Device& device_;
  std::int64_t global_batch_;
  Sampler sampler_;
};

}  // namespace ringside
