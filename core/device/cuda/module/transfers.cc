#include "core/device/cuda/module/transfers.h"

#include <algorithm>
#include <cstring>

#include "core/device/cuda/module/check.h"

namespace ringside::cuda {
namespace {

constexpr std::size_t read_bytes = 4 << 20;
constexpr std::size_t alignment = 64;  // of the host's cache, and enough for the copy engines

}  // namespace

Transfers::Transfers(EventPool& events, PinnedCache& pinned, Waits& waits, cudaStream_t stream)
    : events_(events), pinned_(pinned), waits_(waits), stream_(stream) {
  for (Chunk& chunk : ring_) chunk.block = pinned_.take(chunk_bytes);
}

Transfers::~Transfers() {
  for (Chunk& chunk : ring_) pinned_.give_back(chunk.block, nullptr);
}

void Transfers::write(std::byte* to, std::span<const std::byte> from) {
  std::lock_guard lock(mutex_);
  while (!from.empty()) {
    Chunk& chunk = chunk_locked();
    const std::size_t bytes = std::min(from.size(), chunk_bytes - chunk.used);
    std::byte* staged = chunk.block.data + chunk.used;
    std::memcpy(staged, from.data(), bytes);
    check(cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    chunk.last.emplace(events_, stream_);
    chunk.used += (bytes + alignment - 1) / alignment * alignment;
    to += bytes;
    from = from.subspan(bytes);
  }
}

Transfers::Chunk& Transfers::chunk_locked() {
  if (ring_[current_].used < chunk_bytes) return ring_[current_];
  current_ = (current_ + 1) % chunks;
  Chunk& chunk = ring_[current_];
  if (chunk.last) waits_.until([&] { return chunk.last->reached(); });
  chunk.used = 0;
  return chunk;
}

void Transfers::read(const std::byte* from, std::span<std::byte> to) {
  if (to.empty()) return;
  const PinnedCache::Block block = pinned_.take(std::min(to.size(), read_bytes));
  std::shared_ptr<const Event> copied;
  try {
    while (!to.empty()) {
      const std::size_t bytes = std::min(to.size(), read_bytes);
      check(cudaMemcpyAsync(block.data, from, bytes, cudaMemcpyDeviceToHost, stream_),
            "cudaMemcpyAsync");
      copied = std::make_shared<const Event>(events_, stream_);
      waits_.until([&] { return copied->reached(); });
      std::memcpy(to.data(), block.data, bytes);
      from += bytes;
      to = to.subspan(bytes);
    }
  } catch (...) {
    pinned_.give_back(block, copied);  // a watch may have ended the wait, not the copy
    throw;
  }
  pinned_.give_back(block, nullptr);
}

}  // namespace ringside::cuda
