#include "core/device/cuda/runtime/pinned.h"

#include <algorithm>
#include <bit>

#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {
namespace {

/// Rounds a size up to one of four classes between a power of two and the next, so that requests of
/// similar size share blocks. At most a fifth of a block larger than `least` is unused.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t least = 4096;
  bytes = std::max(bytes, least);
  const std::size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

PinnedCache::~PinnedCache() {
  for (std::byte* data : all_) cudaFreeHost(data);
}

PinnedCache::Block PinnedCache::take(std::size_t bytes) {
  bytes = size_class(bytes);
  std::lock_guard lock(mutex_);
  auto& free = free_[bytes];
  if (!free.empty() && (!free.front().until || free.front().until->reached())) {
    const Block block = free.front().block;
    free.pop_front();
    return block;
  }
  void* data = nullptr;
  check(cudaMallocHost(&data, bytes), "cudaMallocHost");
  all_.push_back(static_cast<std::byte*>(data));
  return {all_.back(), bytes};
}

void PinnedCache::give_back(Block block, std::shared_ptr<const Event> until) {
  std::lock_guard lock(mutex_);
  free_[block.bytes].push_back({block, std::move(until)});
}

}  // namespace ringside::cuda
