#include "core/device/cpu/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>

#include "core/base/error.h"

namespace ringside {
namespace {

constexpr std::size_t largest_range = std::size_t{16} << 30;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

/// A file that can grow, but not shrink: the system would kill peers that map it if it were cut
/// short.
int make_file() {
  const auto name = fmt::format("ringside-{}", getpid());
  const int file = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) throw Error("memfd_create: {}", std::strerror(errno));
  if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    const int cause = errno;
    close(file);
    throw Error("cannot seal a memory file: {}", std::strerror(cause));
  }
  return file;
}

}  // namespace

std::size_t Arena::usual_range() {
  rlimit addresses{};
  if (getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY) return growth;
  const std::size_t memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page();
  return std::clamp(round_up(memory, growth), growth, largest_range);
}

Arena::~Arena() {
  for (const auto& range : ranges_) give_back(range);
}

/// Reserves addresses for at least `bytes`. A file is mapped beyond its end, where memory appears
/// as the file grows; private addresses are closed until they are used, so that nothing is charged
/// for them.
Arena::Range Arena::reserve(std::size_t bytes) const {
  const bool shared = backing_ == Backing::memfd;
  const int file = shared ? make_file() : -1;
  const int access = shared ? PROT_READ | PROT_WRITE : PROT_NONE;
  const int flags = (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | MAP_NORESERVE;
  bytes = round_up(bytes, page());
  std::size_t wanted = std::max(bytes, round_up(range_bytes_, page()));
  void* base = mmap(nullptr, wanted, access, flags, file, 0);
  while (base == MAP_FAILED && wanted > bytes) {
    wanted = std::max(bytes, round_up(wanted / 2, page()));
    base = mmap(nullptr, wanted, access, flags, file, 0);
  }
  if (base == MAP_FAILED) {
    const int cause = errno;
    if (file >= 0) close(file);
    throw Error("mmap: {}", std::strerror(cause));
  }
  return {static_cast<std::byte*>(base), wanted, 0, 0, file};
}

void Arena::give_back(const Range& range) {
  munmap(range.base, range.bytes);
  if (range.file >= 0) close(range.file);
}

/// Lets the first `bytes` of the range be touched. Returns false, with the reason in errno, if the
/// system refuses.
bool Arena::make_usable(Range& range, std::size_t bytes) const {
  if (bytes <= range.usable) return true;
  // A limit may leave less than the usual growth.
  for (const std::size_t step : {growth, page()}) {
    const std::size_t end = std::min(round_up(bytes, step), range.bytes);
    const bool granted = range.file >= 0 ? ftruncate(range.file, static_cast<off_t>(end)) == 0
                                         : mprotect(range.base + range.usable, end - range.usable,
                                                    PROT_READ | PROT_WRITE) == 0;
    if (!granted) continue;
    range.usable = end;
    return true;
  }
  return false;
}

/// Makes the last block of the range a free one of at least `bytes`.
bool Arena::extend(std::size_t number, std::size_t bytes) {
  Range& range = ranges_[number];
  std::size_t begin = range.reached;
  auto last = free_.lower_bound({number + 1, 0});
  const bool joins = last != free_.begin() && (--last)->first.first == number &&
                     last->first.second + last->second == begin;
  if (joins) begin = last->first.second;
  if (bytes > range.bytes - begin || !make_usable(range, begin + bytes)) return false;
  if (joins) erase_free(last);
  range.reached = begin + bytes;
  insert_free({number, begin}, bytes);
  return true;
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
  if (bytes > std::numeric_limits<std::size_t>::max() / 4)
    throw Error("mmap: {}", std::strerror(ENOMEM));
  bytes = round_up(std::max<std::size_t>(bytes, 1), alignment);

  std::lock_guard lock(mutex_);
  auto fit = by_size_.lower_bound({bytes, Place{}});
  if (fit == by_size_.end()) {
    std::size_t range = 0;
    while (range < ranges_.size() && !extend(range, bytes)) ++range;
    if (range == ranges_.size()) {
      ranges_.push_back(reserve(bytes));
      if (!extend(range, bytes)) {
        const int cause = errno;
        give_back(ranges_.back());
        ranges_.pop_back();
        throw Error("cannot extend the memory: {}", std::strerror(cause));
      }
    }
    fit = by_size_.lower_bound({bytes, Place{}});
  }
  const auto [size, place] = *fit;
  erase_free(free_.find(place));
  if (size > bytes) insert_free({place.first, place.second + bytes}, size - bytes);
  const auto& range = ranges_[place.first];
  return {range.base + place.second,
          bytes,
          {range.file, range.file >= 0 ? place.second : 0},
          place.first};
}

void Arena::free(const Block& block) {
  std::lock_guard lock(mutex_);
  std::size_t begin = static_cast<std::size_t>(block.data - ranges_[block.range].base);
  std::size_t bytes = block.bytes;
  auto next = free_.lower_bound({block.range, begin});
  if (next != free_.end() && next->first == Place{block.range, begin + bytes}) {
    bytes += next->second;
    const auto merged = next++;
    erase_free(merged);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == block.range && before->first.second + before->second == begin) {
      begin = before->first.second;
      bytes += before->second;
      erase_free(before);
    }
  }
  insert_free({block.range, begin}, bytes);
}

std::size_t Arena::reached() const {
  std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& range : ranges_) sum += range.reached;
  return sum;
}

std::size_t Arena::available() const {
  std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [place, bytes] : free_) sum += bytes;
  return sum;
}

std::size_t Arena::ranges() const {
  std::lock_guard lock(mutex_);
  return ranges_.size();
}

}  // namespace ringside
