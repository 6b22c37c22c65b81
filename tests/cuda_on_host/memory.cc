// Memory of devices and of the host: allocations, which of the two owns an address, and copies.
#include "tests/cuda_on_host/memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "tests/cuda_on_host/driver.h"
#include "tests/cuda_on_host/stream.h"

namespace cuda_on_host {
namespace {

std::atomic<std::int64_t>& used_of(int device) {
  return driver().devices[static_cast<std::size_t>(device)].used;
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

Block::Block(std::size_t size, int device)
    : data(static_cast<std::byte*>(std::aligned_alloc(4096, (size + 4095) / 4096 * 4096))),
      size(size),
      device(device) {
  if (!data) fail("the host has no %zu bytes for a device", size);
  poison();
}

Block::~Block() {
  if (device >= 0) used_of(device) -= static_cast<std::int64_t>(size);
  std::free(data);
}

std::shared_ptr<Block> make_device_block(std::size_t size, int device) {
  if (!driver().devices[static_cast<std::size_t>(device)].take(static_cast<std::int64_t>(size)))
    return nullptr;
  count(driver().mallocs);
  return std::make_shared<Block>(size, device);
}

Memory& memory() {
  static auto& memory = *new Memory;  // outlives threads that are not joined
  return memory;
}

Place Memory::place_of(const void* pointer, std::size_t count) {
  const auto* begin = static_cast<const std::byte*>(pointer);
  const std::shared_lock lock(mutex_);
  auto next = allocations_.lower_bound(begin + count);
  if (next == allocations_.begin()) return Place::pageable;
  const auto& [data, allocation] = *--next;
  if (data + allocation.size <= begin) return Place::pageable;
  if (begin < data || begin + count > data + allocation.size) return Place::unknown;
  return allocation.block->device < 0 ? Place::pinned : Place::device;
}

void Memory::add(Allocation allocation) {
  const std::unique_lock lock(mutex_);
  const std::byte* data = allocation.block->data;
  allocations_[data] = std::move(allocation);
}

Allocation Memory::remove(void* pointer, Place place, bool is_of_pool) {
  const std::unique_lock lock(mutex_);
  const auto found = allocations_.find(static_cast<std::byte*>(pointer));
  if (found == allocations_.end()) return {};
  const Allocation& there = found->second;
  if ((there.block->device < 0) != (place == Place::pinned) ||
      (there.pool != nullptr) != is_of_pool)
    return {};
  return std::move(allocations_.extract(found).mapped());
}

}  // namespace cuda_on_host

using namespace cuda_on_host;

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call(__func__, [&] {
    const std::int64_t all = driver().memory;
    const std::int64_t used = used_of(current_device());
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
