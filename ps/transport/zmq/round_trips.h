// Round trips over plain ZeroMQ: bytes to another process and back, without servers and headers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ringside::ps {

/// One of two ends that send each other bytes over TCP on 127.0.0.1, in messages of at most
/// max_chunk_bytes. It is a bound for channels over ZeroMQ and measures what the library itself
/// takes: its threads, its queues and its sockets. Used by one thread. All calls throw Error.
class EchoEnd {
 public:
  /// Waits at most `timeout_s` for anything from the other end.
  explicit EchoEnd(double timeout_s);
  ~EchoEnd();
  EchoEnd(const EchoEnd&) = delete;
  EchoEnd& operator=(const EchoEnd&) = delete;

  /// Takes any free port. Returns the endpoint for the other end's connect().
  std::string listen();
  void connect(const std::string& endpoint);

  /// Sends `from`, without a copy, and blocks until as many bytes have come back and lie in `to`.
  void round_trip(std::span<const std::byte> from, std::span<std::byte> to);
  /// The other end's part: sends back `bytes` bytes, each message as it comes.
  void echo(std::size_t bytes);

 private:
  struct Socket;
  std::unique_ptr<Socket> socket_;
};

}  // namespace ringside::ps
