// Compressor: gradients of one bucket, summed over workers in fewer bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/compress/compression.h"
#include "core/device/device.h"

namespace ringside {

/// One tensor of the model in a bucket: elements [begin, begin + shape.count()) of the bucket.
/// Tensors are compressed by themselves. `number` is the tensor's index in the model.
struct Piece {
  std::int64_t begin = 0;
  Shape shape{};
  std::uint32_t number = 0;

  Tensor of(const Tensor& bucket) const { return bucket.range(begin, shape.count()); }
};

/// The worker and the bucket that a compressor belongs to. The device outlives the compressor.
struct CompressorContext {
  Device& device;
  CompressionOptions options;
  std::vector<Piece> pieces;  // they cover the bucket
  int worker = 0, workers = 1;
  std::uint64_t seed = 0;  // of the run: the same on all workers

  std::int64_t count() const;  // elements of the bucket
};

/// Values that a compressor needs in later steps, fp32, in its own memory.
struct CompressorState {
  std::string name;  // that of the compressor first: "dgc_velocity"
  Tensor values;
  /// Whether there is one for each element of the bucket; if not, the name says of what they are.
  bool elementwise = true;
  bool common = false;  // whether all workers have the same values
};
/// Reads the values, or writes them, before it returns.
using CompressorStateVisitor = std::function<void(const CompressorState& state)>;

/// The sum of a bucket over workers takes one round of messages, or several. In a round every
/// worker gives a message and takes what has come: the sum of all messages, or all of them. A
/// worker has one object for each bucket; the definition of a scheme has one for each worker and
/// bucket, and calls the same functions, with loops in place of collectives.
///
/// Tensors are fp32, but for messages. Functions enqueue operations on the device and do not wait
/// for it. For one thread.
class Compressor {
 public:
  explicit Compressor(CompressorContext context) : context_(std::move(context)) {}
  virtual ~Compressor() = default;

  /// How messages move: `sum` by an all-reduce, which adds messages up element by element;
  /// `gather` by an all-gather.
  enum class Move : std::uint8_t { sum, gather };
  virtual Move move() const = 0;
  virtual int rounds() const { return 1; }

  /// The elements of a message of this step and round; none: the round moves nothing.
  struct Form {
    std::int64_t count = 0;
    DType dtype = DType::f32;
  };
  virtual Form form(int round) const = 0;

  /// Begins a step; called before the first round of each. Random numbers are counted by steps.
  void begin_step() { ++step_; }
  /// Writes this worker's message. `values` is what the worker wants to have summed.
  virtual void give(int round, const Tensor& values, const Tensor& message) = 0;
  /// Takes the sum of all messages, or all messages in the order of workers; none where form() has
  /// no elements. In the last round `total` becomes the sum over all workers, as far as the
  /// messages said; before, it is empty. It may be the memory of `values`, if keep() is not called.
  virtual void take(int round, std::span<const Tensor> messages, const Tensor& total) = 0;
  /// Leaves in `values` what `total` lacks of them: the error of this worker, for its memory. `own`
  /// is this worker's message of the last round where messages are gathered, else empty. `total` is
  /// empty where another worker takes the sum (CompressorInfo::in_parts).
  virtual void keep(const Tensor& own, const Tensor& total, const Tensor& values) = 0;

  /// Visits, between two steps, all that later steps need besides the number of steps, so that a
  /// run can go on from a checkpoint; by default nothing.
  virtual void visit_state(const CompressorStateVisitor& visit) { static_cast<void>(visit); }
  /// The number of steps that have begun, which decides what is drawn in the next one.
  std::uint32_t steps() const { return step_; }
  void set_steps(std::uint32_t steps) { step_ = steps; }

 protected:
  const CompressorContext& context() const { return context_; }
  const CompressionOptions& options() const { return context_.options; }
  Device& device() const { return context_.device; }
  const Kernels& kernels() const { return context_.device.kernels(); }
  /// The number of the present step, from 0.
  std::uint32_t step() const { return step_ - 1; }
  /// `scale` / (the number of workers).
  float share(float scale = 1) const { return scale / static_cast<float>(context_.workers); }

 private:
  CompressorContext context_;
  std::uint32_t step_ = 0;
};

}  // namespace ringside
