// Connections to a server that have not authenticated yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <zmq.hpp>

#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/socket_events.h"

namespace ringside::ps {

/// The most unproven connections that a process with a limit of so many file descriptors keeps.
std::size_t most_unproven(std::uint64_t descriptors);

/// ZeroMQ accepts connections without a limit, and each may last as long as a handshake: idle ones
/// that are opened again and again would keep workers out. This object cuts connections of a socket
/// over tcp when more than most_unproven() of them have not proved that they may connect: of the
/// address that has most of them, and there of those that are not new the one that has said least.
/// A worker proves itself within a few packets, so it is never that one. For one thread, the
/// socket's.
class UnprovenConnections {
 public:
  using Clock = std::chrono::steady_clock;

  /// Call this before the socket accepts what comes to `listener`. Both must stay open while this
  /// object exists.
  UnprovenConnections(zmq::context_t& context, zmq::socket_t& socket, const Listener& listener);

  /// The connection by which a message has come has proved itself.
  void proved(const zmq::message_t& part);
  /// Cuts what is too much; call this often.
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
  /// In place of the connection that is cut: ZeroMQ may close its descriptor at any moment, and the
  /// system then gives the number to another file. It is there from the beginning, since the
  /// process may have no other left.
  Descriptor spare_;
  std::size_t most_;
  std::map<int, Connection> connections_;  // by ZeroMQ's descriptor
  std::size_t ended_ = 0;
};

}  // namespace ringside::ps
