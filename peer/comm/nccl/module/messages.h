// Messages between pairs of ranks, which do not delay collectives.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "peer/comm/nccl/module/lane.h"

namespace ringside::peer {

/// A message of NCCL ends only when both ranks have posted it. On a lane with other operations, a
/// message would keep these operations waiting. So each direction between two ranks has a
/// communicator and a lane of its own, which the first message makes. Only one thread may call
/// these functions at a time.
class NcclMessages {
 public:
  NcclMessages(cuda::CudaDevice& device, Store& store, const NcclRank& self, double timeout_s)
      : device_(device), store_(store), self_(self), timeout_s_(timeout_s) {}

  /// Posts a message that runs after the compute that is enqueued now. Messages are matched in
  /// order for each pair of ranks. Does not block: a message that cannot be launched yet is
  /// launched by a later advance().
  OperationPtr post(const std::string& what, const Tensor& array, int peer, bool sends);
  /// Connects ranks and launches messages as far as possible without waiting. Throws Error that
  /// names the message if NCCL fails, or if the other rank did not come to the first message of
  /// this direction in time.
  void advance();
  /// Blocks until the message has been launched. Throws Error as advance() does, and for a message
  /// to this rank itself that was not both sent and received.
  void launch(const Operation& message);
  /// Looks for errors on every lane, as Lane::look() does.
  void look();

  void abort() noexcept;
  bool finish() noexcept;

 private:
  struct Message {
    OperationPtr operation;
    Mark after;
  };
  /// The messages from one rank to another.
  struct Way {
    Lane lane;
    int to;  // number of the other rank in the communicator of the two
    bool sends;
    double since;  // when messages began to wait
    std::deque<Message> waiting{};
  };

  Way& way(int from, int to);
  void advance(Way& way);
  void post_to_self(const Message& message, bool sends);

  cuda::CudaDevice& device_;
  Store& store_;
  const NcclRank self_;
  const double timeout_s_;
  /// The lanes end in the order of this map, which is the same on all ranks.
  std::map<std::pair<int, int>, std::unique_ptr<Way>> ways_;
  std::deque<Message> sent_to_self_, received_from_self_;
};

}  // namespace ringside::peer
