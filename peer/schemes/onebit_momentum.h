// The two halves of 1-bit Adam after its warm-up: momenta in one bit, and an update without a new
// second moment.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/compress/compressor.h"
#include "core/optim/optimizer.h"
#include "core/scheme/state.h"

namespace ringside::peer {

/// One worker's part of the two-level all-reduce of momenta (Tang et al., ICML 2021, algorithm 1).
/// The n elements of the model are N chunks of n/N, one for each worker (its server). A worker adds
/// its gradient to the common momentum m, and what it lost earlier, and sends each server the signs
/// of its chunk, with a magnitude for each tensor in it: the root of the mean of squares. The
/// server averages what has come, adds what it lost earlier, and sends the signs of that to all:
/// the new m.
///
/// Every worker takes the same steps in the same order: give(), combine(), take(). All tensors are
/// on the device, flat and fp32 but for codes (bytes); functions enqueue and do not wait. A worker
/// keeps n + n/N values (MemoryKind::optimizer): the errors of its signs, and of its chunk's.
class OnebitMomentum {
 public:
  /// `pieces` are the tensors of the model. The device outlives this object.
  OnebitMomentum(Device& device, const std::vector<Piece>& pieces, int worker, int workers);

  /// The bytes of a chunk's code, the same for all chunks: n/N/8 and 4 for each tensor in it.
  std::int64_t chunk_bytes() const { return chunk_bytes_; }
  /// Writes the codes of all chunks of beta1 * m + (1 - beta1) * N * g, where g is this worker's
  /// share of the gradient: workers' shares add up to that of the step. `codes` [N * chunk_bytes].
  void give(const Tensor& momentum, const Tensor& gradient, float beta1, const Tensor& codes);
  /// Writes the code of the mean of what all workers gave for this worker's chunk.
  void combine(const Tensor& given, const Tensor& code);
  /// Makes the new momentum of the codes of all servers.
  void take(const Tensor& codes, const Tensor& momentum) const;

  /// Visits this worker's errors ("worker_error"), and those of its chunk ("server_error").
  void visit_state(const StateVisitor& visit);

 private:
  /// A tensor, or the part of one, in a chunk: its elements in the model, and where its code
  /// begins.
  struct Part {
    std::int64_t begin, count, code;
  };
  Tensor magnitude(const Part& part, const Tensor& code) const;
  Tensor signs(const Part& part, const Tensor& code) const;
  Tensor of_chunk(const Tensor& codes, std::size_t chunk) const;
  /// Writes the code of a chunk, and leaves in `values` what it lacks of them. Element `first` of
  /// the model is element 0 of `values`.
  void encode(std::size_t chunk, const Tensor& values, std::int64_t first,
              const Tensor& code) const;
  /// values += scale * (what the codes of a chunk stand for), or without `onto` values = that.
  void add(std::size_t chunk, std::span<const Tensor> codes, float scale, bool onto,
           const Tensor& values, std::int64_t first) const;

  Device& device_;
  int worker_;
  std::int64_t first_, chunk_bytes_ = 0;  // of this worker's chunk
  std::vector<std::vector<Part>> chunks_;
  Tensor errors_, server_errors_;
};

/// The name of AdamW's second moment in its state.
inline constexpr std::string_view second_moment = "second_moment";

/// Adam's update with a second moment v that stays what it was after `frozen` steps, and with
/// decoupled weight decay: p -= lr * (m^ / (sqrt(v^) + epsilon) + decay * p), where m^ = m / (1 -
/// beta1^t) in step t, and v^ = v / (1 - beta2^frozen). Elements whose v is 0 have never had a
/// gradient, and are not moved by m (DeepSpeed leaves that to its exp_avg_mask).
class FrozenAdam {
 public:
  /// `state` is that of the AdamW of which this makes the further steps; its second moment is v^.
  /// The device outlives this object.
  FrozenAdam(Device& device, const OptimizerConfig& config, const RunSize& run, ParameterMap map,
             const std::vector<OptimizerState>& state);

  /// Makes v^ of the second moment of the first `frozen` steps, which takes the host a moment.
  void freeze(std::int64_t frozen);

  const Tensor& momentum() const { return first_moment_; }
  void update(const Tensor& parameters, const StepInfo& info) const;

 private:
  Device& device_;
  OptimizerConfig config_;
  RunSize run_;
  ParameterMap map_;
  Tensor master_, first_moment_, second_moment_;
};

}  // namespace ringside::peer
