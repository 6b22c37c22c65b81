// The events of a ZeroMQ socket's connections.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <zmq.hpp>

namespace ringside::ps {

struct SocketEvent {
  int kind = 0;             // ZMQ_EVENT_...
  std::uint32_t value = 0;  // for ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL: ZeroMQ's error
};

/// A monitor of a socket of the same context (ZeroMQ's socket monitor). For the socket's thread.
class SocketEvents {
 public:
  /// Reports events of the wanted kinds, from now on. The socket may move in memory. It must stay
  /// open until end() is called or this object is destroyed.
  SocketEvents(zmq::context_t& context, zmq::socket_t& socket, int wanted);
  ~SocketEvents() { end(); }
  SocketEvents(const SocketEvents&) = delete;
  SocketEvents& operator=(const SocketEvents&) = delete;

  /// For polls: readable when next() has an event.
  zmq::pollitem_t item() { return {events_.handle(), 0, ZMQ_POLLIN, 0}; }
  /// Does not block.
  std::optional<SocketEvent> next();
  /// Stops the events, because ZeroMQ would wait for a reader that is gone.
  void end() {
    if (socket_) zmq_socket_monitor(std::exchange(socket_, nullptr), nullptr, 0);
  }

 private:
  void* socket_;  // ZeroMQ's handle; null after end()
  zmq::socket_t events_;
};

}  // namespace ringside::ps
