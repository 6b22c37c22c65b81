// Memory of devices and of the host: what is whose, pools in stream order, and copies.
#include "tests/cuda_on_host/memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <shared_mutex>
#include <vector>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/queue.h"
#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host {
namespace {

enum class Place { pageable, pinned, device, unknown };
constexpr std::size_t granule = 512;

std::size_t round_up(std::size_t size) { return (size + granule - 1) / granule * granule; }

// Memory of a device, or of the host (device -1). Full of NaNs at first.
struct Block {
  std::byte* const data;
  const std::size_t size;
  const int device;
  // Of one that its pool may hand out again:
  std::shared_ptr<Queue> freed_in;
  std::atomic<bool> is_free_reached{false};

  Block(std::size_t size, int device)
      : data(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))),
        size(size),
        device(device) {
    if (!data) fail("the host has no %zu bytes for a device", size);
    poison();
  }
  Block(const Block&) = delete;
  ~Block() {
    if (device >= 0) driver().devices[static_cast<std::size_t>(device)].used -= as_signed();
    std::free(data);
  }
  void poison() { std::memset(data, 0xff, size); }
  std::int64_t as_signed() const { return static_cast<std::int64_t>(size); }
};

/// Null if the device has not as much.
std::shared_ptr<Block> make_device_block(std::size_t size, int device) {
  if (!driver().devices[static_cast<std::size_t>(device)].take(static_cast<std::int64_t>(size)))
    return nullptr;
  count(driver().mallocs);
  return std::make_shared<Block>(size, device);
}

struct Allocation {
  std::shared_ptr<Block> block;
  std::size_t size = 0;  // that may be used
  std::shared_ptr<struct Pool> pool;
};

struct Pool {
  const int device;
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  bool is_destroyed = false;
  std::vector<std::shared_ptr<Block>> idle;  // of those that were freed

  explicit Pool(int device) : device(device) {}

  // The one that fits best of those that were freed before in the order of the stream, or that
  // have been reached anywhere.
  std::shared_ptr<Block> reuse(std::size_t size, const std::shared_ptr<Queue>& queue) {
    auto best = idle.end();
    for (auto i = idle.begin(); i != idle.end(); ++i) {
      const Block& block = **i;
      if (block.size < size || block.size > 2 * size) continue;
      if (block.freed_in != queue && !block.is_free_reached.load(std::memory_order_acquire))
        continue;
      if (best == idle.end() || block.size < (*best)->size) best = i;
    }
    if (best == idle.end()) return nullptr;
    auto block = std::move(*best);
    idle.erase(best);
    return block;
  }

  // Gives back blocks that nothing uses any more while it holds more than `keep`.
  void trim(std::uint64_t keep) {
    std::erase_if(idle, [&](const std::shared_ptr<Block>& block) {
      if (reserved <= keep || !block->is_free_reached.load(std::memory_order_acquire)) return false;
      reserved -= block->size;
      return true;
    });
  }
};

struct Memory {
  std::shared_mutex mutex;
  std::map<const std::byte*, Allocation> allocations;
  std::set<std::shared_ptr<Pool>> pools;

  // Where the whole range lies; unknown if it is partly here, partly there.
  Place place_of(const void* pointer, std::size_t count) {
    const auto* begin = static_cast<const std::byte*>(pointer);
    const std::shared_lock lock(mutex);
    auto next = allocations.lower_bound(begin + std::max<std::size_t>(count, 1));
    if (next == allocations.begin()) return Place::pageable;
    const auto& [data, allocation] = *--next;
    if (data + allocation.size <= begin) return Place::pageable;
    if (begin < data || begin + count > data + allocation.size) return Place::unknown;
    return allocation.block->device < 0 ? Place::pinned : Place::device;
  }

  void add(Allocation allocation) {
    const std::unique_lock lock(mutex);
    allocations[allocation.block->data] = std::move(allocation);
  }

  // Takes one that is of this kind out; none if there is none.
  Allocation remove(void* pointer, Place place, bool is_of_pool) {
    const std::unique_lock lock(mutex);
    const auto found = allocations.find(static_cast<std::byte*>(pointer));
    if (found == allocations.end() ||
        (found->second.block->device < 0) != (place == Place::pinned) ||
        (found->second.pool != nullptr) != is_of_pool)
      return {};
    auto allocation = std::move(found->second);
    allocations.erase(found);
    return allocation;
  }
};

Memory& memory() {
  static auto& memory = *new Memory;  // outlives threads that nobody joins
  return memory;
}

bool is_allowed(Place to, Place from, cudaMemcpyKind kind) {
  if (to == Place::unknown || from == Place::unknown) return false;
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

void trim_pools_to_thresholds() {
  const std::unique_lock lock(memory().mutex);
  for (const auto& pool : memory().pools) pool->trim(pool->threshold);
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

struct CUmemPoolHandle_st {
  std::shared_ptr<Pool> pool;
};

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(__func__, [&] {
    const std::int64_t all = driver().memory;
    const std::int64_t used = driver().devices[static_cast<std::size_t>(current_device())].used;
    *total = static_cast<std::size_t>(all);
    *free = static_cast<std::size_t>(std::max<std::int64_t>(all - used, 0));
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** pointer, std::size_t size) {
  return call(__func__, [&] {
    *pointer = nullptr;
    if (size == 0) return cudaSuccess;
    auto block = make_device_block(round_up(size), current_device());
    if (!block) return cudaErrorMemoryAllocation;
    *pointer = block->data;
    memory().add({std::move(block), size, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* pointer) {
  return call(__func__, [&] {
    if (!pointer) return cudaSuccess;
    const Allocation freed = memory().remove(pointer, Place::device, false);
    if (!freed.block) return cudaErrorInvalidValue;
    count(driver().host_waits);
    wait_for_device(freed.block->device);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** pointer, std::size_t size) {
  return call(__func__, [&] {
    *pointer = nullptr;
    if (size == 0) return cudaSuccess;
    auto block = std::make_shared<Block>(size, -1);
    count(driver().host_mallocs);
    *pointer = block->data;
    memory().add({std::move(block), size, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call(__func__, [&] {
    if (!pointer) return cudaSuccess;
    const Allocation freed = memory().remove(pointer, Place::pinned, false);
    if (!freed.block) return cudaErrorInvalidValue;
    count(driver().host_waits);
    wait_for_device(-1);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return call(__func__, [&] {
    if (!pool || !props || props->allocType != cudaMemAllocationTypePinned ||
        props->location.type != cudaMemLocationTypeDevice)
      return cudaErrorInvalidValue;
    if (props->location.id < 0 || props->location.id >= driver().device_count)
      return cudaErrorInvalidDevice;
    auto made = std::make_shared<Pool>(props->location.id);
    *pool = new CUmemPoolHandle_st{made};
    const std::unique_lock lock(memory().mutex);
    memory().pools.insert(std::move(made));
    return cudaSuccess;
  });
}

// What has been handed out stays; it goes back to the device when it is freed.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return call(__func__, [&] {
    if (!handle) return cudaErrorInvalidValue;
    {
      const std::unique_lock lock(memory().mutex);
      memory().pools.erase(handle->pool);
      handle->pool->is_destroyed = true;
      handle->pool->idle.clear();
    }
    delete handle;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attr, void* value) {
  return call(__func__, [&] {
    if (!handle || !value) return cudaErrorInvalidValue;
    const auto set = *static_cast<const std::uint64_t*>(value);
    const std::unique_lock lock(memory().mutex);
    Pool& pool = *handle->pool;
    if (attr == cudaMemPoolAttrReleaseThreshold)
      pool.threshold = set;
    else if (attr == cudaMemPoolAttrReservedMemHigh && set == 0)
      pool.reserved_high = pool.reserved;
    else if (attr == cudaMemPoolAttrUsedMemHigh && set == 0)
      pool.used_high = pool.used;
    else
      return cudaErrorInvalidValue;
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attr, void* value) {
  return call(__func__, [&] {
    if (!handle || !value) return cudaErrorInvalidValue;
    const std::shared_lock lock(memory().mutex);
    const Pool& pool = *handle->pool;
    auto& out = *static_cast<std::uint64_t*>(value);
    switch (attr) {
      case cudaMemPoolAttrReleaseThreshold:
        out = pool.threshold;
        break;
      case cudaMemPoolAttrReservedMemCurrent:
        out = pool.reserved;
        break;
      case cudaMemPoolAttrReservedMemHigh:
        out = pool.reserved_high;
        break;
      case cudaMemPoolAttrUsedMemCurrent:
        out = pool.used;
        break;
      case cudaMemPoolAttrUsedMemHigh:
        out = pool.used_high;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, std::size_t bytes_to_keep) {
  return call(__func__, [&] {
    if (!handle) return cudaErrorInvalidValue;
    const std::unique_lock lock(memory().mutex);
    handle->pool->trim(bytes_to_keep);
    return cudaSuccess;
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t size, cudaMemPool_t handle,
                                    cudaStream_t stream) {
  return call(__func__, [&] {
    if (!pointer || !handle || size == 0) return cudaErrorInvalidValue;
    if (!stream) return cudaErrorInvalidResourceHandle;
    const std::size_t rounded = round_up(size);
    const std::unique_lock lock(memory().mutex);
    Pool& pool = *handle->pool;
    auto block = pool.reuse(rounded, stream->queue);
    if (!block) {
      block = make_device_block(rounded, pool.device);
      if (!block) return cudaErrorMemoryAllocation;
      pool.reserved += block->size;
      pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
    }
    pool.used += rounded;
    pool.used_high = std::max(pool.used_high, pool.used);
    enqueue(stream, [block] { block->poison(); });
    *pointer = block->data;
    memory().allocations[block->data] = {block, size, handle->pool};
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!pointer) return cudaErrorInvalidValue;
    auto [block, size, pool] = memory().remove(pointer, Place::device, true);
    if (!block) return cudaErrorInvalidValue;
    const std::unique_lock lock(memory().mutex);
    block->freed_in = stream->queue;
    block->is_free_reached.store(false, std::memory_order_relaxed);
    enqueue(stream, [block = block] {
      block->poison();
      block->is_free_reached.store(true, std::memory_order_release);
    });
    pool->used -= round_up(size);
    if (!pool->is_destroyed) pool->idle.push_back(std::move(block));
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (size == 0) return cudaSuccess;
    if (!to || !from) return cudaErrorInvalidValue;
    const Place to_place = memory().place_of(to, size), from_place = memory().place_of(from, size);
    if (!is_allowed(to_place, from_place, kind)) return cudaErrorInvalidValue;
    count(driver().copies);
    const bool is_pageable = to_place == Place::pageable || from_place == Place::pageable;
    if (is_pageable) count(driver().pageable_copies);
    if (from_place == Place::pageable) {
      const auto* bytes = static_cast<const std::byte*>(from);
      enqueue(stream, [to, copy = std::vector<std::byte>(bytes, bytes + size)] {
        std::memcpy(to, copy.data(), copy.size());
      });
    } else {
      enqueue(stream, [to, from, size] { std::memcpy(to, from, size); });
    }
    if (to_place == Place::pageable) {
      count(driver().host_waits);
      stream->queue->wait();
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t size, cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (size == 0) return cudaSuccess;
    if (!pointer || memory().place_of(pointer, size) != Place::device) return cudaErrorInvalidValue;
    enqueue(stream, [=] { std::memset(pointer, value, size); });
    return cudaSuccess;
  });
}
