// Messages between pairs of ranks: the receiver copies directly from the sender's memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/comm/communicator.h"
#include "core/shm/peer_memory.h"
#include "peer/comm/shm/control.h"
#include "peer/comm/shm/pending_work.h"

namespace ringside::peer {

/// This rank's messages. Messages of the same pair and direction run one after the other; different
/// pairs and directions do not wait for each other. A thread of this class moves messages on, and
/// so does every caller that waits. If the peer does not post its end of a message within the
/// group's deadline, the group breaks.
class Messages {
 public:
  /// A tensor that is sent or filled, and its address.
  struct Operand {
    Tensor tensor;  // kept until the message is over
    shm::Address address;
  };

  /// The arguments must outlive this object.
  Messages(Device& device, Control& control, shm::PeerMemory& memory);
  /// Moves messages on until all are over.
  ~Messages();

  WorkPtr send(Operand operand, int to) { return post(std::move(operand), true, to); }
  WorkPtr receive(Operand operand, int from) { return post(std::move(operand), false, from); }
  /// Bytes of payload that crossed between ranks.
  Traffic traffic() const;

 private:
  struct Message : Pending {
    Operand operand;
    bool sending = false;
    int peer = 0;
    WaitingTime waited{0, 0};  // since its turn began
  };
  using MessagePtr = std::shared_ptr<Message>;
  struct Lane {
    std::deque<MessagePtr> waiting;
    std::uint32_t turn = 0;  // number, from 1, of the message under way; `over` if there is none
    std::uint32_t over = 0;  // number of messages that are over
    bool copying = false;
  };

  WorkPtr post(Operand operand, bool sending, int peer);
  /// Moves all lanes on until `message` is over or, if `message` is null, until no message waits.
  void run(std::unique_lock<std::mutex>& lock, const Message* message);
  bool advance(std::unique_lock<std::mutex>& lock);
  bool advance_sending(Lane& lane, int to);
  bool advance_receiving(std::unique_lock<std::mutex>& lock, Lane& lane, int from);
  void begin_turn(Lane& lane);
  /// Breaks the group if the peer of the lane's first message is late, or has ended and thus will
  /// never set `flag` for this message.
  void check_peer(const Lane& lane, const shm::Flag& flag, int from, int to);
  void finish(Lane& lane);
  /// Fails all messages that are not over; returns whether there were any.
  bool fail_all(const std::string& what);
  void work();

  Device& device_;
  Control& control_;
  shm::PeerMemory& memory_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Lane> sending_, receiving_;  // indexed by peer
  std::size_t waiting_ = 0;
  bool ending_ = false;
  Traffic traffic_;
  std::thread thread_;  // started by the first message
};

}  // namespace ringside::peer
