// Memory for segments that arrive from other hosts, reused by one collective after another.
#pragma once

#include <cstddef>
#include <memory>

namespace ringside::peer {

/// The bytes of a segment of an array. Where ranks share cores with threads that compute, whoever
/// waits gets its core back late: four segments of 1 MB make up for that, and 512 KB took up to
/// twice as long for arrays of 16 MB (tests/bench/hosts_bench.h). Larger ones win little more.
inline constexpr std::size_t segment_bytes = std::size_t{1} << 20;
/// How many segments are on their way at a time.
inline constexpr int segments_ahead = 4;

/// Slots of one size. For one thread.
class Staging {
 public:
  /// Makes room for `slots` slots of `bytes` bytes each, uninitialised. What was there is lost.
  void reserve(std::size_t slots, std::size_t bytes) {
    bytes_ = (bytes + 63) / 64 * 64;
    if (slots * bytes_ <= room_) return;
    room_ = slots * bytes_;
    memory_.reset(new std::byte[room_]);
  }
  std::byte* slot(std::size_t index) const { return memory_.get() + index * bytes_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t room_ = 0, bytes_ = 0;
};

}  // namespace ringside::peer
