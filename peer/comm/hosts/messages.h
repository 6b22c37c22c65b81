// Messages (send, recv) between ranks of different hosts.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core/comm/communicator.h"
#include "peer/comm/hosts/host_group.h"
#include "peer/comm/shm/pending_work.h"

namespace ringside::peer {

/// This rank's messages to and from other hosts. A message is under way from its call on: its
/// length goes ahead of its bytes, so that a receiver who expects another length breaks the group
/// with an error that names both. A thread for each peer and direction in use waits for them in
/// order. Thread-safe.
class HostMessages {
 public:
  /// The arguments must outlive this object.
  HostMessages(Device& device, HostGroup& host_group) : device_(device), host_group_(host_group) {}
  /// Waits for all messages.
  ~HostMessages();

  WorkPtr begin(const Tensor& array, int peer, bool sends);

 private:
  struct Message : Pending {
    Tensor array{};
    std::uint64_t number = 0;                // on its lane, from 1
    std::uint64_t own_bytes = 0, bytes = 0;  // stated by this rank, and by the sender
    TransferPtr head, body;
  };
  using MessagePtr = std::shared_ptr<Message>;
  /// All messages in one direction between this rank and a peer.
  struct Lane {
    int peer = 0;
    bool sends = false;
    std::uint64_t messages = 0;
    std::deque<MessagePtr> waiting;
    std::thread thread;
  };

  void start(const Lane& lane, Message& message);
  void finish(const Lane& lane, Message& message);
  void work(Lane& lane);

  Device& device_;
  HostGroup& host_group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, bool>, Lane> lanes_;  // by peer and whether this rank sends
  bool ending_ = false;
};

}  // namespace ringside::peer
