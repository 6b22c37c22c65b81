// Streams of bytes between processes that know each other by keys (ps/transport/zmq/keys.h), on any
// host. Each end of a stream is a local stream socket; a thread carries its bytes, encrypted, over
// ZeroMQ with CURVE, in which both sides prove that they have their keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ringside::ps {

struct KeyedAddress {
  std::string host{};  // an IPv4 address
  int port = 0;
  /// For errors: who listens, the option that sets the port, and what to do if nobody is there.
  std::string listener = "the listener", port_option = "port", remedy = "look whether it has begun";
  /// The folder of the keys, or the text of draw_keys().
  std::string keys{}, drawn_keys{};
  /// After how many seconds without an answer of the other host's system a stream ends.
  double unheard_s = 60;
};

/// Takes in whoever has the key of one of the workers or of the servers, and proves to have the
/// servers' key itself. Others are cut before anything that they say is read, and keep nobody out
/// (UnprovenConnections). Thread-safe.
class KeyedListener {
 public:
  /// Takes in workers 0 to `workers` - 1, and no more than `most_streams` streams at once. Port 0:
  /// any free port. Throws Error if a key cannot be read or the address cannot be had.
  KeyedListener(const KeyedAddress& address, int workers, int most_streams);
  /// Blocks until what was written to the streams has left, three seconds at most.
  ~KeyedListener();
  KeyedListener(const KeyedListener&) = delete;
  KeyedListener& operator=(const KeyedListener&) = delete;

  int port() const;
  /// A file that can be read while a stream waits to be accepted.
  int file() const;

  /// The number by which servers are known: the first that is no worker's.
  int server_member() const;
  struct Stream {
    int socket = -1;  // the caller owns it
    int member = 0;   // a worker, or server_member()
  };
  /// The next stream; none if no stream waits. Throws Error that says why a stream was refused, or
  /// why all have ended.
  std::optional<Stream> accept();
  /// The number of connections that ended without a key.
  std::size_t strangers() const;
  /// Stops accepting connections.
  void close();

 private:
  class Carrier;
  std::unique_ptr<Carrier> carrier_;
};

/// A stream to a listener.
class KeyedStream {
 public:
  /// Connects with the key pair `name` of the folder (worker_key() or server_key), and tries again
  /// while nobody listens. Throws Error after `timeout_s`, and at once if either side does not
  /// accept the other's key.
  KeyedStream(const KeyedAddress& address, const std::string& name, double timeout_s);
  /// Blocks until what was written has left, three seconds at most.
  ~KeyedStream();
  KeyedStream(const KeyedStream&) = delete;
  KeyedStream& operator=(const KeyedStream&) = delete;

  /// The socket, which the caller owns from now on. It ends when the listener's side ends.
  int release_socket();

 private:
  class Carrier;
  std::unique_ptr<Carrier> carrier_;
};

}  // namespace ringside::ps
