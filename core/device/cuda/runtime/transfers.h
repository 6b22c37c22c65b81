// Copies between ordinary memory of the host and a GPU, in the order of a stream.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "core/device/cuda/runtime/pinned.h"
#include "core/device/cuda/runtime/waits.h"
#include "core/tensor/tensor.h"

namespace ringside::cuda {

/// Data goes through pinned memory; otherwise the driver would block until the stream reaches the
/// copy. Thread-safe: a thread that waits does not block others. Throws Error if the tensor and the
/// host's memory differ in size.
class Transfers {
 public:
  Transfers(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t stream);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Copies `from` to `to`. Returns as soon as the caller may reuse `from`. Waits only if more
  /// copies are pending on `stream` than fit into pinned memory.
  void write(const Tensor& to, std::span<const std::byte> from);
  /// Copies `from` to `to` and waits until `to` is filled.
  void read(const Tensor& from, std::span<std::byte> to);

 private:
  static constexpr std::size_t chunk_bytes = 1 << 20, chunks = 8;

  /// A piece of pinned memory. Writes fill it from the front until it is full.
  struct Chunk {
    PinnedCache::Block block;
    std::size_t used = 0;
    std::shared_ptr<const Event> last{};  // recorded after the last copy from this chunk
  };
  /// Returns a chunk with room. Releases the lock while it waits for one.
  Chunk& chunk(std::unique_lock<std::mutex>& lock);
  /// Returns the address of the tensor's memory and makes its device current.
  std::byte* begin(const char* what, const Tensor& tensor, std::size_t host_bytes) const;

  const int ordinal_;
  EventPool& events_;
  PinnedCache& pinned_;
  Waits& waits_;
  const cudaStream_t stream_;
  std::mutex mutex_;  // guards the members below: chunks are written in turn
  std::array<Chunk, chunks> ring_;
  std::size_t current_ = 0;
};

}  // namespace ringside::cuda
