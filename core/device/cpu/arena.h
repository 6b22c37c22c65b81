// Arena: memory in segments that are kept until the arena ends.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/tensor/buffer.h"

namespace ringside {

/// A best-fit allocator with coalescing over segments of memory. Freed blocks are reused, so a
/// training step that repeats the sizes of the step before makes no system call and touches no new
/// page. Cost: O(log free blocks) a call. Thread-safe.
class Arena {
 public:
  enum class Backing {
    anonymous,  // private to the process
    memfd       // one file for each segment, "ringside-<pid>", that other processes can map
  };
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t default_segment = std::size_t{64} << 20;

  /// `bytes` is the size of the block: the requested size rounded up to `alignment`.
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    SymmetricAddress address;
    std::size_t segment = 0;
  };

  /// Makes an arena without memory. Segments will have `segment_bytes`, or more for a larger
  /// request.
  explicit Arena(Backing backing, std::size_t segment_bytes = default_segment)
      : backing_(backing), segment_bytes_(segment_bytes) {}
  /// Unmaps and closes all segments. No block may be in use.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns uninitialised memory. Takes a new segment if no free block is large enough; if the
  /// system refuses the segment, throws Error with the system's reason.
  Block allocate(std::size_t bytes);
  void free(const Block& block);

  /// Bytes of all segments, and bytes of the free blocks in them.
  std::size_t reserved() const;
  std::size_t available() const;
  std::size_t segments() const;

 private:
  struct Segment {
    std::byte* base;
    std::size_t bytes;
    int file;
  };
  using Place = std::pair<std::size_t, std::size_t>;  // segment, offset in it

  Segment map_segment(std::size_t bytes) const;
  void insert_free(Place place, std::size_t bytes);
  void erase_free(std::map<Place, std::size_t>::iterator it);

  const Backing backing_;
  const std::size_t segment_bytes_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::map<Place, std::size_t> free_;                // by place, for coalescing
  std::set<std::pair<std::size_t, Place>> by_size_;  // the same blocks by size, for best fit
};

}  // namespace ringside
