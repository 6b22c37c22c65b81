// MovedBytes: how many bytes a TCP connection has moved, in parts of messages too.
#pragma once

#include <sys/socket.h>

#include <cstdint>

namespace ringside::ps {

/// A connection of ZeroMQ's, as the system knows it. ZeroMQ hands over whole messages only, so a
/// large one on a slow link looks like silence.
class MovedBytes {
 public:
  /// `file` is the connection's file, which ZeroMQ owns; -1: not known.
  explicit MovedBytes(int file = -1);
  bool known() const { return file_ >= 0; }
  /// The bytes that have come, and those of which the other end's system has said that they have.
  /// 0 if the connection has ended, or is none of TCP's.
  std::int64_t count() const;

 private:
  int file_;
  sockaddr_storage peer_{};  // by which another connection with the same file is told apart
};

}  // namespace ringside::ps
