// DelayCompensation: the correction of gradients for updates since their workers read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/scheme/state.h"

namespace ringside::ps {

/// The correction of DC-ASGD (CompensateDelay in core/device/ops/flat.h) by a server, which for
/// that keeps the values that each worker was given: with N workers and parameters of P bytes, at
/// most N
/// * P bytes of MemoryKind::communication. Chunks are counted from 0.
class DelayCompensation {
 public:
  /// `values` are those of every chunk, with which all workers begin; there is at least one. The
  /// device outlives this object.
  DelayCompensation(Device& device, int workers, double factor, const std::vector<Tensor>& values);

  /// The gradient, which the worker computed from what it was given last, for the values `now`.
  /// Valid until the next call.
  Tensor corrected(std::size_t chunk, int worker, const Tensor& gradient, const Tensor& now) const;
  /// The worker is given these values, which nobody changes any more.
  void give(std::size_t chunk, int worker, Tensor values);
  /// The worker is gone.
  void leave(int worker);
  /// Visits the values that workers have of the chunk, which begins there in the model.
  void visit_state(std::size_t chunk, std::int64_t begin, const StateVisitor& visit);

 private:
  Tensor& given(std::size_t chunk, int worker);
  const Tensor& given(std::size_t chunk, int worker) const;

  Device& device_;
  std::size_t workers_;
  float factor_;
  DType dtype_;
  std::vector<Tensor> given_;  // by chunk and worker
  Tensor corrected_;           // as long as the longest chunk
};

}  // namespace ringside::ps
