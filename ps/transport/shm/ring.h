// One direction of the messages between a worker and a server, in memory that both map.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/shm/peer_memory.h"

namespace ringside::ps {

/// A message as it travels through a ring: the values of its frames stay where they are.
struct Record {
  /// The release word of the message, which the receiver sets when it needs the frames no more.
  /// Unused for a message without frames.
  std::uint32_t release = 0;
  /// Asks the receiver to copy the frames at once, because it holds many others of this sender.
  bool copy = false;
  std::vector<shm::Address> frames;  // a frame of 0 bytes has no file
  std::vector<std::byte> header;     // encoded
};

/// A queue of records for one sender and one receiver. Memory filled with zeros is an empty ring.
/// No call blocks. Data of the other side is never trusted: sizes are checked, and nothing outside
/// the ring is touched. The ring raises no bell: both sides do that themselves.
class Ring {
 public:
  static constexpr std::size_t most_frames = 16;
  /// Messages whose frames the receiver may hold at a time.
  static constexpr std::uint32_t releases = 1024;

  /// Sender: puts the record into the ring. Returns false if the ring is full, and throws Error if
  /// the receiver's count is impossible.
  bool put(const Record& record);
  /// Sender: whether put() of a record of this size would succeed. Throws as put() does.
  bool has_room(std::size_t header_bytes, std::size_t frames) const;
  /// Receiver: returns the oldest record, if there is one. Throws Error if the bytes are no record;
  /// nothing after them can be read then.
  std::optional<Record> take();
  /// Receiver: whether take() would find something.
  bool empty() const;

  /// A flag of a sender that waits for room; the receiver's test clears it. Set it before testing
  /// for room and test it after taking a record; otherwise a wake-up can be lost.
  void await_room() { sender_waits_.store(1, std::memory_order_seq_cst); }
  bool sender_waits() {
    return sender_waits_.load(std::memory_order_seq_cst) != 0 && sender_waits_.exchange(0) != 0;
  }

  std::atomic<std::uint32_t>& released(std::uint32_t release) { return released_.at(release); }

  /// Makes the ring empty, as a new one is. To be called by one side while the other has no
  /// process.
  void clear();

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 15;
  struct Sizes {
    std::uint32_t header = 0, frames = 0, release = 0, copy = 0;
  };
  static std::size_t bytes_of(std::size_t header_bytes, std::size_t frames);
  /// Copies bytes into, or out of, the ring from the position on; returns the position after them.
  std::uint64_t write(std::uint64_t at, const void* data, std::size_t bytes);
  std::uint64_t read(std::uint64_t at, void* data, std::size_t bytes) const;

  // Positions count all bytes since the ring was made; each cache line has one writer.
  alignas(64) std::atomic<std::uint64_t> put_;
  std::atomic<std::uint32_t> messages_put_;
  alignas(64) std::atomic<std::uint64_t> taken_;
  std::atomic<std::uint32_t> messages_taken_;
  alignas(64) std::atomic<std::uint32_t> sender_waits_;
  alignas(64) std::array<std::atomic<std::uint32_t>, releases> released_;
  alignas(64) std::array<std::byte, capacity> bytes_;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace ringside::ps
