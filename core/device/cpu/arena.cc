#include "core/device/cpu/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>

#include "core/base/error.h"

namespace ringside {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

Arena::~Arena() {
  for (const auto& segment : segments_) {
    munmap(segment.base, segment.bytes);
    if (segment.file >= 0) close(segment.file);
  }
}

Arena::Segment Arena::map_segment(std::size_t bytes) const {
  int file = -1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  if (backing_ == Backing::memfd) {
    const auto name = fmt::format("ringside-{}", getpid());
    file = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) throw Error("memfd_create: {}", std::strerror(errno));
    // Sealed, because peers that map the file would be killed if somebody cut it.
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
      const int cause = errno;
      close(file);
      throw Error("cannot size a memory file: {}", std::strerror(cause));
    }
    flags = MAP_SHARED;
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (base == MAP_FAILED) {
    const int cause = errno;
    if (file >= 0) close(file);
    throw Error("mmap: {}", std::strerror(cause));
  }
  return {static_cast<std::byte*>(base), bytes, file};
}

void Arena::insert_free(Place place, std::size_t bytes) {
  free_.emplace(place, bytes);
  by_size_.emplace(bytes, place);
}

void Arena::erase_free(std::map<Place, std::size_t>::iterator it) {
  by_size_.erase({it->second, it->first});
  free_.erase(it);
}

Arena::Block Arena::allocate(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > std::numeric_limits<std::size_t>::max() / 4)
    throw Error("mmap: {}", std::strerror(ENOMEM));
  bytes = round_up(std::max<std::size_t>(bytes, 1), alignment);

  std::lock_guard lock(mutex_);
  auto fit = by_size_.lower_bound({bytes, Place{}});
  if (fit == by_size_.end()) {
    segments_.push_back(map_segment(round_up(std::max(bytes, segment_bytes_), page)));
    insert_free({segments_.size() - 1, 0}, segments_.back().bytes);
    fit = by_size_.lower_bound({bytes, Place{}});
  }
  const auto [size, place] = *fit;
  erase_free(free_.find(place));
  if (size > bytes) insert_free({place.first, place.second + bytes}, size - bytes);
  const auto& segment = segments_[place.first];
  return {segment.base + place.second,
          bytes,
          {segment.file, segment.file >= 0 ? place.second : 0},
          place.first};
}

void Arena::free(const Block& block) {
  std::lock_guard lock(mutex_);
  std::size_t begin = static_cast<std::size_t>(block.data - segments_[block.segment].base);
  std::size_t bytes = block.bytes;
  auto next = free_.lower_bound({block.segment, begin});
  if (next != free_.end() && next->first == Place{block.segment, begin + bytes}) {
    bytes += next->second;
    const auto merged = next++;
    erase_free(merged);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == block.segment && before->first.second + before->second == begin) {
      begin = before->first.second;
      bytes += before->second;
      erase_free(before);
    }
  }
  insert_free({block.segment, begin}, bytes);
}

std::size_t Arena::reserved() const {
  std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& segment : segments_) sum += segment.bytes;
  return sum;
}

std::size_t Arena::available() const {
  std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [place, bytes] : free_) sum += bytes;
  return sum;
}

std::size_t Arena::segments() const {
  std::lock_guard lock(mutex_);
  return segments_.size();
}

}  // namespace ringside
