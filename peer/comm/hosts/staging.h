// Memory for segments that arrive from other hosts, reused by one collective after another.
#pragma once

#include <cstddef>
#include <memory>

namespace ringside::peer {

/// The bytes of a segment of an array. Where ranks share cores with threads that compute, a waiting
/// thread gets its core back late. Four segments of 1 MB under way make up for that; with 512 KB
/// arrays of 16 MB took up to twice as long (tests/bench/hosts_bench.h). Larger segments gain
/// little more.
inline constexpr std::size_t segment_bytes = std::size_t{1} << 20;
/// The number of segments under way at a time.
inline constexpr int segments_ahead = 4;

/// Slots of one size. For one thread.
class Staging {
 public:
  /// Makes room for `slots` slots of `bytes` bytes each, uninitialised. Earlier contents are lost.
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
