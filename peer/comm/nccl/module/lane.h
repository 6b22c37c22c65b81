// A stream beside compute, and what is under way on it.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <memory>
#include <span>
#include <string>

#include "core/comm.h"
#include "core/device/cuda/cuda.h"

namespace ringside::peer {

/// From its call to its end. It owns its tensors until later compute waits for it: then memory that
/// is let go of is used again, in the order of compute, after its end.
struct Operation {
  std::string what;  // "operation 3 (all_reduce of 4096 bytes)"
  Tensor in, out;
  Work::Span span{};
  bool launched = false, waited_for = false;
  double begun_at = -1;  // when the host first saw that it could begin; -1: not yet
};
using OperationPtr = std::shared_ptr<Operation>;

/// Operations run in order, on a stream of the highest priority: communication is waited for by
/// others as well. For one thread at a time.
class Lane {
 public:
  explicit Lane(cuda::CudaDevice& device);
  ~Lane() { cudaStreamDestroy(stream_); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  cudaStream_t stream() const { return stream_; }

  /// What is enqueued next begins after `mark`. Returns when that is.
  Mark begin_after(const Mark& mark);
  /// What was enqueued since `begin` are these, which end together.
  void end(std::span<const OperationPtr> operations, const Mark& begin);

  /// The operation that is under way; null if there is none. Neither blocks.
  const Operation* first();
  /// That operation, if it could have begun `timeout_s` before `now`, else null.
  const Operation* overdue(double now, double timeout_s);
  /// The end of the last operation that is not known to be over; null if there is none.
  const Mark* last() const { return under_way_.empty() ? nullptr : &under_way_.back()->span.end; }

 private:
  cuda::CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::deque<OperationPtr> under_way_;
};

}  // namespace ringside::peer
