// Memory of devices and of the host: what is whose.
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

/// Memory is handed out in multiples of this, in bytes.
constexpr std::size_t round_up(std::size_t size) { return (size + 511) / 512 * 512; }

/// Memory of a device, or of the host (device -1). Full of NaNs at first.
struct Block {
  std::byte* const data;
  const std::size_t size;
  const int device;
  // Of one that its pool may hand out again:
  std::shared_ptr<Queue> freed_in;
  // Not reached by their streams. One that was freed, handed out and freed again in a stream that
  // stands still has several.
  std::atomic<int> frees{0};

  Block(std::size_t size, int device);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();
  void poison() { std::memset(data, 0xff, size); }
};

/// Null if the device has not as much.
std::shared_ptr<Block> make_device_block(std::size_t size, int device);

struct Pool;
struct Allocation {
  std::shared_ptr<Block> block;
  std::size_t size = 0;        // that was asked for
  std::shared_ptr<Pool> pool;  // null if it is of none
};

enum class Place { pageable, pinned, device, unknown };

/// What has been handed out.
class Memory {
 public:
  /// Where the whole range lies; unknown if it is partly here, partly there.
  Place place_of(const void* pointer, std::size_t count);
  void add(Allocation allocation);
  /// Takes an allocation of this kind out; an empty one if there is none at the pointer.
  Allocation remove(void* pointer, Place place, bool is_of_pool);

 private:
  std::shared_mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;
};
Memory& memory();

/// Pools give back what they hold above their thresholds, as whenever the host waited.
void trim_pools_to_thresholds();

}  // namespace cuda_on_host
