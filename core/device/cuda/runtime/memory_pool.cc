#include "core/device/cuda/runtime/memory_pool.h"

#include <algorithm>
#include <limits>

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {

MemoryPool::MemoryPool(int ordinal) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
  // By default the pool returns unused memory to the driver whenever the host waits for the GPU.
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  const cudaError_t status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
  if (status != cudaSuccess) cudaMemPoolDestroy(pool_);
  check(status, "cudaMemPoolSetAttribute");
}

MemoryPool::~MemoryPool() { cudaMemPoolDestroy(pool_); }

std::byte* MemoryPool::allocate(std::size_t bytes, cudaStream_t stream) {
  void* data = nullptr;
  const cudaError_t status =
      cudaMallocFromPoolAsync(&data, std::max<std::size_t>(bytes, 1), pool_, stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is handled here
    return nullptr;
  }
  check(status, "cudaMallocFromPoolAsync");
  return static_cast<std::byte*>(data);
}

void MemoryPool::free(std::byte* data, cudaStream_t stream) { cudaFreeAsync(data, stream); }

void MemoryPool::trim() { check(cudaMemPoolTrimTo(pool_, 0), "cudaMemPoolTrimTo"); }

std::int64_t MemoryPool::reserved() const { return attribute(cudaMemPoolAttrReservedMemCurrent); }

std::int64_t MemoryPool::most_reserved() const { return attribute(cudaMemPoolAttrReservedMemHigh); }

std::int64_t MemoryPool::attribute(cudaMemPoolAttr attribute) const {
  std::uint64_t value = 0;
  check(cudaMemPoolGetAttribute(pool_, attribute, &value), "cudaMemPoolGetAttribute");
  return static_cast<std::int64_t>(value);
}

}  // namespace ringside::cuda
