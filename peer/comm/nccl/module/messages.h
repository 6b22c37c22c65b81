// Messages between pairs of ranks, beside collectives.
#pragma once

#include <deque>
#include <vector>

#include "peer/comm/nccl/module/handle.h"
#include "peer/comm/nccl/module/lane.h"

namespace ringside::peer {

/// A message of NCCL is over only when both ends have come, and those of one launch proceed
/// together: so messages are gathered, and go out in one launch as soon as the one before is
/// through. For one thread at a time.
class NcclMessages {
 public:
  /// `handle`: of these messages alone.
  NcclMessages(cuda::CudaDevice& device, Handle handle, double timeout_s)
      : device_(device), lane_(device), handle_(std::move(handle)), timeout_s_(timeout_s) {}

  /// After the compute that is enqueued now. Matched in order for each pair of ranks.
  OperationPtr post(const std::string& what, const Tensor& array, int peer, bool sends);
  /// Launches what was posted, if it can; does not block. Throws Error if NCCL failed, or if a peer
  /// did not come to its first message in time.
  void advance();
  /// Blocks until the message has been launched; throws as above.
  void launch(const Operation& message);

  Lane& lane() { return lane_; }
  Handle& handle() { return handle_; }

 private:
  struct Message {
    OperationPtr operation;
    Mark after;
    int peer;
    bool sends;
  };

  std::vector<Message> take_batch();
  void start(const std::vector<Message>& batch);
  void settle();

  cuda::CudaDevice& device_;
  Lane lane_;
  Handle handle_;
  double timeout_s_;
  std::deque<Message> posted_;
  // Of the launch in progress.
  std::vector<OperationPtr> launching_;
  Mark begin_;
  double since_ = 0;
};

}  // namespace ringside::peer
