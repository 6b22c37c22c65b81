// MemoryPool: memory of one GPU, allocated and freed in the order of a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ringside::cuda {

/// The driver's stream-ordered pool. The pool keeps all memory that it has taken, so once it is
/// large enough for a step no call waits for the GPU. Thread-safe.
class MemoryPool {
 public:
  explicit MemoryPool(int ordinal);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Returns memory that work enqueued in `stream` after this call may use, or null if there is not
  /// enough memory. Even an allocation of 0 bytes has an address of its own.
  std::byte* allocate(std::size_t bytes, cudaStream_t stream);
  /// Frees memory once `stream` has run all work enqueued now. Ignores errors: they mean that the
  /// context is broken, and then its memory is gone anyway.
  void free(std::byte* data, cudaStream_t stream);
  /// Returns to the driver all memory that is free and that no stream still uses.
  void trim();

  /// Bytes taken from the driver: at present, and the most so far.
  std::int64_t reserved() const;
  std::int64_t most_reserved() const;

 private:
  std::int64_t attribute(cudaMemPoolAttr attribute) const;

  cudaMemPool_t pool_ = nullptr;
};

}  // namespace ringside::cuda
