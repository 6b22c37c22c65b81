// Pools of device memory. A freed block is handed out again when the order of streams allows it.
#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/memory.h"
#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host {

// The mutex guards all members except the constants.
struct Pool {
  std::mutex mutex;
  const int device;
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  bool is_destroyed = false;
  std::vector<std::shared_ptr<Block>> idle;  // freed, and not yet handed out again

  explicit Pool(int device) : device(device) {}

  // Returns the smallest idle block that fits; null if there is none. The stream in which a block
  // was freed may use it again at once, other streams only after all enqueued frees of it have run.
  std::shared_ptr<Block> reuse(std::size_t size, const std::shared_ptr<Queue>& queue) {
    auto best = idle.end();
    for (auto i = idle.begin(); i != idle.end(); ++i) {
      const Block& block = **i;
      if (block.size < size || block.size > 2 * size) continue;
      if (block.freed_in != queue && block.frees.load(std::memory_order_acquire) > 0) continue;
      if (best == idle.end() || block.size < (*best)->size) best = i;
    }
    if (best == idle.end()) return nullptr;
    auto block = std::move(*best);
    idle.erase(best);
    return block;
  }

  // Gives blocks that nothing uses any more back to the device while the pool holds more than
  // `keep` bytes.
  void trim(std::uint64_t keep) {
    std::erase_if(idle, [&](const std::shared_ptr<Block>& block) {
      if (reserved <= keep || block->frees.load(std::memory_order_acquire) > 0) return false;
      reserved -= block->size;
      return true;
    });
  }
};

namespace {

struct Pools {
  std::mutex mutex;
  std::set<std::shared_ptr<Pool>> open;
};

Pools& pools() {
  static auto& pools = *new Pools;  // outlives threads that are not joined
  return pools;
}

}  // namespace

void trim_pools_to_thresholds() {
  const std::lock_guard lock(pools().mutex);
  for (const auto& pool : pools().open) {
    const std::lock_guard pool_lock(pool->mutex);
    pool->trim(pool->threshold);
  }
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

struct CUmemPoolHandle_st {
  std::shared_ptr<Pool> pool;
};

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* props) {
  return call(__func__, [&] {
    if (!pool || !props || props->allocType != cudaMemAllocationTypePinned ||
        props->location.type != cudaMemLocationTypeDevice)
      return cudaErrorInvalidValue;
    if (props->location.id < 0 || props->location.id >= driver().device_count)
      return cudaErrorInvalidDevice;
    auto made = std::make_shared<Pool>(props->location.id);
    *pool = new CUmemPoolHandle_st{made};
    const std::lock_guard lock(pools().mutex);
    pools().open.insert(std::move(made));
    return cudaSuccess;
  });
}

// Memory that the pool has handed out stays valid; it goes back to the device when it is freed.
cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return call(__func__, [&] {
    if (!handle) return cudaErrorInvalidValue;
    {
      const std::scoped_lock lock(pools().mutex, handle->pool->mutex);
      pools().open.erase(handle->pool);
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
    Pool& pool = *handle->pool;
    const std::lock_guard lock(pool.mutex);
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
    Pool& pool = *handle->pool;
    const std::lock_guard lock(pool.mutex);
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
    const std::lock_guard lock(handle->pool->mutex);
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
    Pool& pool = *handle->pool;
    const std::lock_guard lock(pool.mutex);
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
    memory().add({std::move(block), size, handle->pool});
    return cudaSuccess;
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call(__func__, [&] {
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!pointer) return cudaErrorInvalidValue;
    auto [block, size, pool] = memory().remove(pointer, Place::device, true);
    if (!block) return cudaErrorInvalidValue;
    const std::lock_guard lock(pool->mutex);
    block->freed_in = stream->queue;
    block->frees.fetch_add(1, std::memory_order_relaxed);
    enqueue(stream, [block = block] {
      block->poison();
      block->frees.fetch_sub(1, std::memory_order_release);
    });
    pool->used -= round_up(size);
    if (!pool->is_destroyed) pool->idle.push_back(std::move(block));
    return cudaSuccess;
  });
}
