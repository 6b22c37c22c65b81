// Lane: a stream for communication, with its NCCL communicator and the operations under way on it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/device/cuda/cuda.h"
#include "peer/comm/nccl/module/handle.h"

namespace ringside::peer {

/// An operation, from its call to its end. It keeps its tensors until later compute has been made
/// to wait for its end: their memory can then only be reused by compute that runs after that end.
struct Operation {
  std::string what;          // "operation 3 (all_reduce of 4096 bytes)"
  std::uint64_t number = 0;  // of a collective, from 1
  Tensor in, out;
  Work::Span span{};
  bool launched = false, waited_for = false;
  double begun_at = -1;  // when the host first saw that the operation could begin; -1: not yet
};
using OperationPtr = std::shared_ptr<Operation>;

/// Runs operations in order, on a stream of the highest priority because other ranks wait for them
/// too. Only finish() blocks. For one thread at a time.
class Lane {
 public:
  /// `others` lists the last operations of the other ranks, for the error at a deadline; may be
  /// empty.
  Lane(cuda::CudaDevice& device, Handle handle, double timeout_s,
       std::function<std::string()> others = {});
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Handle& handle() { return handle_; }
  cudaStream_t stream() const { return stream_; }

  /// Lets `call` enqueue the operation, to run after `mark`. The previous launch must be through
  /// (see is_through()).
  void launch(const OperationPtr& operation, const Mark& mark,
              const std::function<ncclResult_t()>& call);
  /// Whether NCCL has finished enqueueing the last launch; if so, the operation has its marks.
  /// Throws Error that names the operation if NCCL failed, or if ranks that meet for the first time
  /// did not come in time.
  bool is_through();

  /// Throws Error that names the operation under way if NCCL failed, or if the operation has not
  /// ended within `timeout_s` seconds after it could begin.
  void look();
  /// is_busy(): whether an operation is under way. last(): the end of the last operation under way.
  bool is_busy();
  const Mark& last() const { return under_way_.back()->span.end; }
  /// The first operation that has not ended; null if there is none.
  const Operation* first() { return is_busy() ? under_way_.front().get() : launching_.get(); }

  void abort() noexcept { handle_.abort(); }
  bool finish() noexcept { return handle_.finish(device_.clock(), timeout_s_); }

 private:
  [[noreturn]] void fail_late(const Operation& operation, const char* did_not) const;

  cuda::CudaDevice& device_;
  Handle handle_;
  const double timeout_s_;
  std::function<std::string()> others_;
  cudaStream_t stream_ = nullptr;
  std::deque<OperationPtr> under_way_;
  // The launch that is not through yet: its operation, the mark before it, and the time at which
  // launch() was called.
  OperationPtr launching_;
  Mark begin_;
  double since_ = 0;
};

}  // namespace ringside::peer
