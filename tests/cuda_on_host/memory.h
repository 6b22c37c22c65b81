// The memory of devices and of the host, and its owners.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <shared_mutex>

#include "tests/cuda_on_host/queue.h"

namespace cuda_on_host {

/// Rounds a size up to a multiple of 512 bytes; all memory is handed out in such multiples.
constexpr std::size_t round_up(std::size_t size) { return (size + 511) / 512 * 512; }

/// A block of memory of a device, or of the host (device -1). It is filled with NaNs at first.
struct Block {
  std::byte* const data;
  const std::size_t size;
  const int device;
  // The stream in which a block of a pool was freed last; null before the first free.
  std::shared_ptr<Queue> freed_in;
  // The number of frees of this block that are enqueued in a stream but have not run yet. It is
  // above 1 if the block was freed, handed out and freed again while the stream stood still.
  std::atomic<int> frees{0};

  Block(std::size_t size, int device);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();
  void poison() { std::memset(data, 0xff, size); }
};

/// Makes a block; null if the device has too little memory left.
std::shared_ptr<Block> make_device_block(std::size_t size, int device);

struct Pool;
struct Allocation {
  std::shared_ptr<Block> block;
  std::size_t size = 0;        // the size that was asked for
  std::shared_ptr<Pool> pool;  // null if the block belongs to no pool
};

enum class Place { pageable, pinned, device, unknown };

/// All allocations that have been handed out.
class Memory {
 public:
  /// The place that the whole range lies in; unknown if the range lies in several places.
  Place place_of(const void* pointer, std::size_t count);
  void add(Allocation allocation);
  /// Removes the allocation at the pointer and returns it; returns an empty one if there is no
  /// allocation of this kind.
  Allocation remove(void* pointer, Place place, bool is_of_pool);

 private:
  std::shared_mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;
};
Memory& memory();

/// Makes every pool give back the free memory above its threshold. In CUDA this happens whenever
/// the host has waited for the device.
void trim_pools_to_thresholds();

}  // namespace cuda_on_host
