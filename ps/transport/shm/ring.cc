#include "ps/transport/shm/ring.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "ps/protocol/archive.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

std::size_t Ring::bytes_of(std::size_t header_bytes, std::size_t frames) {
  return sizeof(Sizes) + frames * sizeof(shm::Address) + header_bytes;
}

std::uint64_t Ring::write(std::uint64_t at, const void* data, std::size_t bytes) {
  const std::size_t begin = at % capacity;
  const std::size_t first = std::min(bytes, capacity - begin);
  if (first > 0) std::memcpy(bytes_.data() + begin, data, first);
  if (bytes > first)
    std::memcpy(bytes_.data(), static_cast<const std::byte*>(data) + first, bytes - first);
  return at + bytes;
}

std::uint64_t Ring::read(std::uint64_t at, void* data, std::size_t bytes) const {
  const std::size_t begin = at % capacity;
  const std::size_t first = std::min(bytes, capacity - begin);
  if (first > 0) std::memcpy(data, bytes_.data() + begin, first);
  if (bytes > first)
    std::memcpy(static_cast<std::byte*>(data) + first, bytes_.data(), bytes - first);
  return at + bytes;
}

bool Ring::has_room(std::size_t header_bytes, std::size_t frames) const {
  const std::uint64_t used = put_.load(std::memory_order_relaxed) - taken_.load();
  if (used > capacity) throw Error("the receiver has taken bytes that were never sent");
  const std::uint32_t messages =
      messages_put_.load(std::memory_order_relaxed) - messages_taken_.load();
  return messages < static_cast<std::uint32_t>(high_water_mark) &&
         bytes_of(header_bytes, frames) <= capacity - used;
}

bool Ring::put(const Record& record) {
  if (!has_room(record.header.size(), record.frames.size())) return false;
  const Sizes sizes{static_cast<std::uint32_t>(record.header.size()),
                    static_cast<std::uint32_t>(record.frames.size()), record.release,
                    record.copy ? 1U : 0U};
  std::uint64_t at = put_.load(std::memory_order_relaxed);
  at = write(at, &sizes, sizeof sizes);
  at = write(at, record.frames.data(), record.frames.size() * sizeof(shm::Address));
  at = write(at, record.header.data(), record.header.size());
  messages_put_.fetch_add(1, std::memory_order_relaxed);
  put_.store(at, std::memory_order_release);
  return true;
}

void Ring::clear() {
  for (auto* position : {&put_, &taken_}) position->store(0);
  for (auto* count : {&messages_put_, &messages_taken_, &sender_waits_}) count->store(0);
  for (auto& word : released_) word.store(0);
}

bool Ring::empty() const {
  return put_.load(std::memory_order_acquire) == taken_.load(std::memory_order_relaxed);
}

std::optional<Record> Ring::take() {
  std::uint64_t at = taken_.load(std::memory_order_relaxed);
  const std::uint64_t there = put_.load(std::memory_order_acquire) - at;
  if (there == 0) return {};
  Sizes sizes;
  if (there > capacity || there < sizeof sizes)
    throw Error("{} bytes are no message of the ring", there);
  at = read(at, &sizes, sizeof sizes);
  if (sizes.header > max_header_bytes || sizes.frames > most_frames || sizes.release >= releases ||
      sizes.copy > 1 || bytes_of(sizes.header, sizes.frames) > there)
    throw Error("a message has a header of {} bytes and {} frames in {} bytes", sizes.header,
                sizes.frames, there);
  Record record{sizes.release, sizes.copy == 1, std::vector<shm::Address>(sizes.frames),
                std::vector<std::byte>(sizes.header)};
  at = read(at, record.frames.data(), sizes.frames * sizeof(shm::Address));
  at = read(at, record.header.data(), sizes.header);
  messages_taken_.fetch_add(1, std::memory_order_relaxed);
  taken_.store(at, std::memory_order_seq_cst);
  return record;
}

}  // namespace ringside::ps
