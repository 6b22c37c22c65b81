// Messages between pairs of simulated ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/comm/communicator.h"
#include "peer/comm/sim/members.h"

namespace ringside::peer {

/// The messages from one rank to another are moved one after the other. Each message is one flow,
/// which starts once both ranks have posted the message. For each sender and receiver, an actor of
/// the simulated world (a service) starts these flows and waits for their ends.
class SimMessages {
 public:
  /// The kind of messages: those of send() and recv(), with a deadline each, or the steps of
  /// collectives, with one deadline for the whole collective. If ranks share the memory of a CPU
  /// (CollectiveKind::shm), a step is no flow: the receiver's core reads it from the sender.
  enum class Use : std::uint8_t { messages, steps };

  /// A message as its sender, or its receiver, has posted it.
  struct Message {
    Tensor tensor;  // kept until the message is over
    Tensor plus;    // the values to which a receiver adds the message, if any
    std::uint64_t bytes = 0;
    bool sending = false;
    int from = 0, to = 0;
    double begin = 0, end = 0;
    bool done = false;
    std::unique_ptr<sim::Event> changed;

    int owner() const { return sending ? from : to; }
    int peer() const { return sending ? to : from; }
  };
  using MessagePtr = std::shared_ptr<Message>;

  SimMessages(SimMembers& group, Use use) : group_(group), use_(use) {}

  /// `plus` is for receivers of steps. The tensor becomes the sum of `plus`, which may be the same
  /// tensor, and the message.
  MessagePtr post(const Tensor& tensor, bool sending, int from, int to, const Tensor& plus = {});
  /// Blocks until the message is over. Throws Error that names the peer if the peer is gone or does
  /// not come in time, and Error if sender and receiver gave different sizes.
  void await(const Message& message);

  /// wake_all() wakes all waiting ranks and services. drop_tensors() releases the tensors of all
  /// messages; it calls no function of the simulated world.
  void wake_all();
  void drop_tensors();

 private:
  /// The messages from one rank to another.
  struct Lane {
    std::deque<MessagePtr> sending, receiving;
    std::uint64_t over = 0;  // number of messages that are over
    double last_end = 0;
    std::unique_ptr<sim::Event> changed;
  };

  void serve(Lane& lane, int from, int to);
  /// Blocks for the time that the first message of the lane takes.
  void carry(const Lane& lane, int from, int to) const;
  void finish(Lane& lane);
  std::string mismatch(const Lane& lane, int from, int to) const;

  SimMembers& group_;
  Use use_;
  std::map<std::pair<int, int>, Lane> lanes_;  // by (from, to)
};

}  // namespace ringside::peer
