// Copies between any memory of the host and a GPU, in the order of a stream.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>

#include "core/device/cuda/module/pinned.h"
#include "core/device/cuda/module/waits.h"
#include "core/tensor/tensor.h"

namespace ringside::cuda {

/// The host's side goes through pinned memory, as otherwise the driver would block until the stream
/// has come so far. Thread-safe: a thread that waits is in nobody's way. Throws Error where a
/// tensor and the host's side are not of the same size.
class Transfers {
 public:
  Transfers(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t stream);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// Returns when `from` has been taken over. Waits only where `stream` is further behind than
  /// there is pinned memory.
  void write(const Tensor& to, std::span<const std::byte> from);
  /// Waits until `to` is filled.
  void read(const Tensor& from, std::span<std::byte> to);

 private:
  static constexpr std::size_t chunk_bytes = 1 << 20, chunks = 8;

  /// Filled from the front by one write after the other, until it is full.
  struct Chunk {
    PinnedCache::Block block;
    std::size_t used = 0;
    std::shared_ptr<const Event> last{};  // of its copies
  };
  /// One with room; lets go of the lock while it waits for one.
  Chunk& chunk(std::unique_lock<std::mutex>& lock);
  /// The tensor's memory; makes its device current.
  std::byte* begin(const char* what, const Tensor& tensor, std::size_t host_bytes) const;

  const int ordinal_;
  EventPool& events_;
  PinnedCache& pinned_;
  Waits& waits_;
  const cudaStream_t stream_;
  std::mutex mutex_;  // of what follows: chunks are written in turn
  std::array<Chunk, chunks> ring_;
  std::size_t current_ = 0;
};

}  // namespace ringside::cuda
