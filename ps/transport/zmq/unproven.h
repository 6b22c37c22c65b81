// Connections to a server that have not authenticated yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <zmq.hpp>

#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/socket_events.h"

namespace ringside::ps {

/// The most unproven connections that a process keeps if its limit of file descriptors is this.
std::size_t most_unproven(std::uint64_t descriptors);

/// The unproven connections of a socket over tcp. ZeroMQ accepts connections without a limit, and
/// each may last as long as a handshake: idle ones, opened again and again, would keep workers out.
/// If more than most_unproven() connections have not proved that they may connect, this object cuts
/// some of the address that has most of them: connections that are not new first, and of these the
/// one from which the fewest bytes have come. A worker proves itself within a few packets, so it is
/// never cut. For the socket's thread.
class UnprovenConnections {
 public:
  using Clock = std::chrono::steady_clock;

  /// Call this before the socket accepts what comes to `listener`. Both must stay open while this
  /// object exists.
  UnprovenConnections(zmq::context_t& context, zmq::socket_t& socket, const Listener& listener);

  /// Notes that the connection of this part of a message has proved itself.
  void proved(const zmq::message_t& part);
  /// Cuts connections while there are too many. To be called often.
  void look(Clock::time_point now = Clock::now());
  /// For polls: readable when look() has something to see.
  zmq::pollitem_t item() { return events_.item(); }
  /// The number of connections that ended without a proof.
  std::size_t ended() const { return ended_; }

 private:
  struct Connection {
    std::uint32_t address = 0;
    std::uint16_t port = 0;  // of the other end
    Clock::time_point since{};
  };

  void hear(Clock::time_point now);
  void take_in(int theirs, Clock::time_point now);
  void cut(int theirs);

  SocketEvents events_;
  const Listener& listener_;
  /// The descriptor with which a connection is cut: ZeroMQ may close its own at any moment, and the
  /// system then gives the number to another file. It is made at the beginning, since the process
  /// may have no other left later.
  Descriptor spare_;
  std::size_t most_;
  std::map<int, Connection> connections_;  // by ZeroMQ's descriptor
  std::size_t ended_ = 0;
};

}  // namespace ringside::ps
