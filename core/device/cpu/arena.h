// Arena: memory that grows in place and is freed as a whole.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/tensor/buffer.h"

namespace ringside {

/// A best-fit allocator with coalescing over ranges of addresses. A range is reserved without
/// memory and filled from its low end, so that all blocks of an arena lie side by side and free
/// neighbours join, whatever they were: the activations of many layers become one large gradient.
/// Memory that was never handed out is used only if no freed block is large enough. So a training
/// step that repeats the sizes of the step before makes no system call and touches no new page.
/// Cost: O(log free blocks) a call. Thread-safe.
class Arena {
 public:
  enum class Backing {
    anonymous,  // private to the process
    memfd       // one file for each range, "ringside-<pid>", that other processes can map
  };
  static constexpr std::size_t alignment = 64;
  /// The number of bytes of a range that become usable at a time. They take no memory before they
  /// are written to.
  static constexpr std::size_t growth = std::size_t{64} << 20;

  /// `bytes` is the size of the block: the requested size rounded up to `alignment`.
  struct Block {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    SymmetricAddress address;
    std::size_t range = 0;
  };

  /// Makes an arena without memory. Ranges will have `range_bytes` of addresses, or more for a
  /// larger request; fewer if the system refuses so many.
  explicit Arena(Backing backing, std::size_t range_bytes = usual_range())
      : backing_(backing), range_bytes_(range_bytes) {}
  /// As many addresses as the machine has bytes of memory, but at most 16 GiB, because many devices
  /// may live in one process. Where addresses are limited (`ulimit -v`), no more than `growth`.
  static std::size_t usual_range();
  /// Unmaps all ranges and closes their files. No block may be in use.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns uninitialised memory. If no freed block is large enough, a range grows, or a further
  /// one is reserved; if the system refuses that, throws Error with the system's reason.
  Block allocate(std::size_t bytes);
  void free(const Block& block);

  /// Bytes from the beginning of each range to the end of its highest block so far, and bytes of
  /// the freed blocks in them.
  std::size_t reached() const;
  std::size_t available() const;
  std::size_t ranges() const;

 private:
  struct Range {
    std::byte* base;
    std::size_t bytes;   // of addresses
    std::size_t usable;  // bytes from the base on that the system lets us touch
    std::size_t reached;
    int file;
  };
  using Place = std::pair<std::size_t, std::size_t>;  // range, offset in it

  Range reserve(std::size_t bytes) const;
  static void give_back(const Range& range);
  bool make_usable(Range& range, std::size_t bytes) const;
  bool extend(std::size_t range, std::size_t bytes);
  void insert_free(Place place, std::size_t bytes);
  void erase_free(std::map<Place, std::size_t>::iterator it);

  const Backing backing_;
  const std::size_t range_bytes_;
  mutable std::mutex mutex_;
  std::vector<Range> ranges_;
  std::map<Place, std::size_t> free_;                // by place, for coalescing
  std::set<std::pair<std::size_t, Place>> by_size_;  // the same blocks by size, for best fit
};

}  // namespace ringside
