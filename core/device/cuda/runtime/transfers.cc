#include "core/device/cuda/runtime/transfers.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/device/cuda/runtime/check.h"

namespace ringside::cuda {
namespace {

constexpr std::size_t read_bytes = 4 << 20;
constexpr std::size_t alignment = 64;  // a line of the host's cache; enough for copy engines

}  // namespace

Transfers::Transfers(int ordinal, EventPool& events, PinnedCache& pinned, Waits& waits,
                     cudaStream_t stream)
    : ordinal_(ordinal), events_(events), pinned_(pinned), waits_(waits), stream_(stream) {
  for (Chunk& chunk : ring_) chunk.block = pinned_.take(chunk_bytes);
}

Transfers::~Transfers() {
  for (Chunk& chunk : ring_) pinned_.give_back(chunk.block, nullptr);
}

void Transfers::write(const Tensor& tensor, std::span<const std::byte> from) {
  std::byte* to = begin("write", tensor, from.size());
  std::unique_lock lock(mutex_);
  while (!from.empty()) {
    Chunk& free = chunk(lock);
    const std::size_t bytes = std::min(from.size(), chunk_bytes - free.used);
    std::byte* staged = free.block.data + free.used;
    std::memcpy(staged, from.data(), bytes);
    check(cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    free.last = std::make_shared<const Event>(events_, stream_);
    free.used += (bytes + alignment - 1) / alignment * alignment;
    to += bytes;
    from = from.subspan(bytes);
  }
}

Transfers::Chunk& Transfers::chunk(std::unique_lock<std::mutex>& lock) {
  while (ring_[current_].used >= chunk_bytes) {
    const std::size_t next = (current_ + 1) % chunks;
    if (const auto last = ring_[next].last; last && !last->reached()) {
      lock.unlock();
      waits_.until([&] { return last->reached(); });
      lock.lock();
      continue;  // another thread may have taken the chunk meanwhile
    }
    ring_[next].used = 0;
    current_ = next;
  }
  return ring_[current_];
}

std::byte* Transfers::begin(const char* what, const Tensor& tensor, std::size_t host_bytes) const {
  if (tensor.bytes() != host_bytes)
    throw Error(
        "gpu {}: {}: the host's memory has {} bytes, but the tensor of shape {} has {} bytes; "
        "the sizes must be equal",
        ordinal_, what, host_bytes, tensor.shape().text(), tensor.bytes());
  check(cudaSetDevice(ordinal_), "cudaSetDevice");
  return reinterpret_cast<std::byte*>(tensor.data<std::uint8_t>());
}

void Transfers::read(const Tensor& tensor, std::span<std::byte> to) {
  const std::byte* from = begin("read", tensor, to.size());
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
    // If a watch ended the wait by throwing, the copy may still run.
    pinned_.give_back(block, copied);
    throw;
  }
  pinned_.give_back(block, nullptr);
}

}  // namespace ringside::cuda
