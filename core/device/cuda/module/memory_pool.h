// Memory of one GPU, taken and given back in the order of a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ringside::cuda {

/// The driver's stream-ordered pool. Nothing in it waits for the GPU once the pool has grown to
/// what a step needs: it keeps what it has. Thread-safe.
class MemoryPool {
 public:
  explicit MemoryPool(int ordinal);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// For use in `stream`'s order from here on; null if there is not enough. Of 0 bytes too it gives
  /// a place of its own.
  std::byte* allocate(std::size_t bytes, cudaStream_t stream);
  /// When `stream` has come so far. Ignores errors: the memory of a broken context is gone anyway.
  void free(std::byte* data, cudaStream_t stream);
  /// Gives back to the driver what nobody holds and no stream still uses.
  void trim();

  /// Bytes taken from the driver: now, and at most.
  std::int64_t reserved() const;
  std::int64_t most_reserved() const;

 private:
  std::int64_t attribute(cudaMemPoolAttr attribute) const;

  cudaMemPool_t pool_ = nullptr;
};

}  // namespace ringside::cuda
