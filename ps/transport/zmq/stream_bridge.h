// The common part of a keyed stream's two ends. Only their sources include this file.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "ps/transport/zmq/listener.h"

namespace ringside::ps {

/// Every message is one of these letters; bytes of the stream follow `data`. A stream begins with
/// `begin`, so that what is left of one that the listener has ended is not taken for another.
inline constexpr char begin_word = 'b', data_word = 'd', alive_word = 'a', end_word = 'e';
inline constexpr std::size_t most_bytes_a_message = 32 << 10;

/// A pair of connected local stream sockets.
std::array<Descriptor, 2> local_stream();

/// The end of a local stream that belongs to the thread that carries its bytes. Nothing here
/// blocks. For one thread.
class LocalEnd {
 public:
  explicit LocalEnd(Descriptor socket) : socket_(std::move(socket)) {}

  /// What to ask the system about the socket; `reads` says whether bytes from it are wanted.
  zmq::pollitem_t item(bool reads) const;
  /// Bytes for this process. Returns false if it does not take them and too many wait.
  bool write(std::string_view bytes);
  /// Hands over bytes that wait.
  void flush();
  bool flushed() const { return waiting_.empty(); }
  /// A message with bytes that this process has written: `data_word` and the bytes. It is
  /// `end_word` if no more will come; none if nothing has come.
  std::optional<std::string> read();

 private:
  Descriptor socket_;
  std::string waiting_;
};

/// The options that both sides set: how long unsent messages keep the socket, how large messages
/// may be, and how long a host may leave packets, the system's own probes too, without an answer.
void set_up(zmq::socket_t& socket, double unheard_s);

}  // namespace ringside::ps
