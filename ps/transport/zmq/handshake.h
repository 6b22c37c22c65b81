// The progress of a worker's handshake with a server.
#pragma once

#include <string>

#include "core/base/error.h"
#include "ps/protocol/transport.h"
#include "ps/transport/zmq/socket_events.h"

namespace ringside::ps {

/// ZeroMQ connects in the background and tries again and again whatever the server says, so a
/// worker whom the server refuses would wait for its whole deadline. This object listens to what
/// ZeroMQ says about a socket's handshake. For one thread, the socket's.
class Handshake {
 public:
  /// Call this before the socket connects to the endpoint. `options` outlives this object.
  Handshake(zmq::context_t& context, zmq::socket_t& socket, int worker, int server,
            std::string endpoint, const TransportOptions& options);

  /// For polls: readable when look() has something to see.
  zmq::pollitem_t item() { return events_.item(); }
  /// Returns whether the server has admitted the worker; false while that is open. Does not block.
  /// Throws Error that names the server's address and what to do if the server refuses the worker.
  bool look();

 private:
  Error refused(const std::string& cause, const std::string& advice) const;
  void fail(const SocketEvent& event);

  SocketEvents events_;
  int worker_, server_;
  std::string endpoint_;
  const TransportOptions& options_;
  int ends_ = 0;  // handshakes that the server has ended without a word
};

}  // namespace ringside::ps
