// Wire: messages between the ranks of a group that shares no memory, over a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/tensor/dtype.h"

namespace ringside::peer {

/// A message under way between two ranks, or a library's collective among all.
class Transfer {
 public:
  /// Destroys the transfer. A message that is not over is abandoned, which only a broken group
  /// does; as far as the library can promise it, the memory is not touched afterwards.
  virtual ~Transfer() = default;
  /// Blocks until the message is over: until the memory of a send may be changed, or the message
  /// has been received. Calls `give_up` at least every 0.1 s, possibly on another thread, and
  /// returns false once `give_up` returns true. Throws Error that names the peer if the connection
  /// breaks. To be called by one thread, until it has returned true.
  virtual bool wait(const std::function<bool()>& give_up) = 0;
};
using TransferPtr = std::unique_ptr<Transfer>;

/// The connections of one rank to all other ranks of its group. Thread-safe.
class Wire {
 public:
  /// Messages of different lanes do not wait for each other.
  enum class Lane : std::uint8_t { heads, steps, results, message_heads, messages, ends };

  /// Cuts all connections. All transfers have been destroyed before.
  virtual ~Wire() = default;
  /// Begin a message of at least one byte at once, and do not block. The n-th message to a peer on
  /// a lane is the n-th that the peer receives there. If the peer expects another size, the message
  /// may never be over, or end short: sender and receiver must agree on sizes beforehand. The
  /// memory is the caller's, and stays until the transfer is over or destroyed. Throw Error that
  /// names the peer if the connection is broken.
  virtual TransferPtr send(int peer, Lane lane, std::span<const std::byte> bytes) = 0;
  virtual TransferPtr receive(int peer, Lane lane, std::span<std::byte> bytes) = 0;
  /// Begins the library's own all-reduce: every rank's array of values of this type (summable()),
  /// at least one, becomes the sum of all ranks' arrays, added up in an order that the library
  /// chooses. All ranks call this function with as many values, one all-reduce after the other. The
  /// memory is the caller's as above. Errors name no peer. Some libraries begin it only in wait().
  /// An abandoned all-reduce breaks the wire.
  virtual TransferPtr all_reduce(DType dtype, std::span<std::byte> array) = 0;
};

}  // namespace ringside::peer
