// Window: memory of all ranks of a group that each of them can read and write without the help of
// the others (one-sided).
#pragma once

#include <cstdint>

#include "core/base/traffic.h"
#include "core/comm/communicator.h"

namespace ringside {

/// One tensor of every rank of a group, as the windows of MPI-3 (MPI Forum 2015, chapter 11): the
/// owner of a tensor neither takes part in an operation on it nor notices the operation. `begin` is
/// an element of the owner's tensor; all tensors of an operation have the same dtype. Operations
/// run beside compute and wait for no rank; those of one rank on one owner's memory run in the
/// order of their calls. Only Communicator::barrier() orders the accesses of several ranks to the
/// same elements: an operation comes before a barrier if its wait() has returned before the barrier
/// is called. An operation costs the bytes of its local tensor, counted as sent by the rank in
/// whose memory they were. For one thread; the communicator outlives the window, and the memory of
/// every rank outlives all operations on it.
class Window {
 public:
  virtual ~Window() = default;
  /// Copies elements of the owner's tensor to `out`.
  virtual WorkPtr get(int owner, std::int64_t begin, const Tensor& out) = 0;
  /// Copies `in` to elements of the owner's tensor.
  virtual WorkPtr put(const Tensor& in, int owner, std::int64_t begin) = 0;
  /// Adds `in` to elements of the owner's tensor; each sum is rounded to the dtype.
  virtual WorkPtr add(const Tensor& in, int owner, std::int64_t begin) = 0;

  /// The bytes that this rank has got from other ranks, and put or added there. The operations of
  /// others on this rank's memory count at the others.
  virtual Traffic traffic() const = 0;
};

}  // namespace ringside
