// Streams of bytes between processes on any host. Each end of a stream is a socket of the system.
// Streams between processes that know each other by keys (ps/transport/zmq/keys.h) have local
// sockets, whose bytes a thread carries, encrypted, over ZeroMQ with CURVE.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ps/protocol/transport.h"

namespace ringside::ps {

/// The owner of the key with which a connection was made.
struct KeyHolder {
  bool server = false;
  int worker = -1;  // unless the key is the servers'
  bool operator==(const KeyHolder&) const = default;
};

struct AcceptedStream {
  int socket = -1;                    // the caller owns it
  std::optional<KeyHolder> holder{};  // none without keys
};

/// Accepts streams.
class StreamListener {
 public:
  virtual ~StreamListener() = default;
  virtual int port() const = 0;
  /// A file that can be read while a stream waits to be accepted.
  virtual int file() const = 0;
  /// The next stream; none if none waits. Throws Error that says why a stream was refused, which is
  /// then closed, or why all have ended.
  virtual std::optional<AcceptedStream> accept() = 0;
  /// The number of connections that ended without a key.
  virtual std::size_t strangers() const = 0;
  /// Stops accepting connections.
  virtual void close() = 0;
};

/// A stream to a listener.
class StreamLink {
 public:
  virtual ~StreamLink() = default;
  /// The socket, which the caller owns from now on. It ends when the listener's side ends.
  virtual int release_socket() = 0;
};

struct KeyedAddress {
  /// Of tcp: the port and its option, the IPv4 address, and the keys.
  TransportOptions options{};
  /// For errors: the name of the listener, and the advice if no process listens.
  std::string listener = "the listener", remedy = "look whether it has begun";
  /// A stream ends after this many seconds without an answer from the other host's system.
  double unheard_s = 60;
};

/// Accepts holders of the keys of workers 0 to `workers` - 1 and of the servers, at most
/// `most_streams` streams at once, and proves that it has the servers' key. Other connections are
/// cut before their data is read, and cannot keep holders out (UnprovenConnections). Port 0: any
/// free port. The listener is thread-safe; its destructor blocks until all data written to the
/// streams has left, at most 3 s. Throws Error if a key cannot be read, or if the process cannot
/// listen at the address.
std::unique_ptr<StreamListener> listen_with_keys(const KeyedAddress& address, int workers,
                                                 int most_streams);

/// Connects with the key pair `name` of the folder (worker_key() or server_key), and tries again
/// while there is no listener. The destructor of the link blocks until all data written has left,
/// at most 3 s. Throws Error after `timeout_s`, and at once if either side does not accept the
/// other's key.
std::unique_ptr<StreamLink> connect_with_key(const KeyedAddress& address, const std::string& name,
                                             double timeout_s);

}  // namespace ringside::ps
