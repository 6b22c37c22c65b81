#include "experiments/tools/bench/shared_ranks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <thread>

#include "core/base/error.h"
#include "core/base/seconds_now.h"

namespace ringside::tools::bench {

std::shared_ptr<SharedRanks> make_shared_ranks() {
  void* memory =
      mmap(nullptr, sizeof(SharedRanks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Error("bench: no memory for the ranks: {}", std::strerror(errno));
  return {new (memory) SharedRanks, [](SharedRanks* shared) { munmap(shared, sizeof *shared); }};
}

void Meeting::meet() {
  const int all = ranks_ * ++round_;
  ++shared_.arrived;
  const double end = seconds_now() + timeout_s_;
  for (int looks = 1; shared_.arrived.load() < all; ++looks) {
    std::this_thread::yield();
    if (looks % 1000 == 0 && seconds_now() > end)
      throw Error("waited {} s for the other ranks; one of them failed or hangs", timeout_s_);
  }
}

void SharedStore::set(const std::string& key, const std::string& value) {
  if (key.starts_with(kept_key)) return;  // the bench has no folder for them
  const int index = shared_.reserved++;
  if (index >= most_entries)
    throw Error(
        "bench: the ranks leave more than {} entries in their store; measure fewer sizes, "
        "ways or servers at once",
        most_entries);
  SharedRanks::Entry& entry = shared_.entries[index];
  if (key.size() >= sizeof entry.key || value.size() >= sizeof entry.value)
    throw Error("bench: no room in the store for {}", key);
  std::memcpy(entry.key, key.c_str(), key.size() + 1);
  std::memcpy(entry.value, value.c_str(), value.size() + 1);
  entry.whole = true;
}

std::string SharedStore::get(const std::string& key, double timeout_s) {
  for (const double end = seconds_now() + timeout_s;;) {
    if (auto value = try_get(key)) return std::move(*value);
    if (seconds_now() > end) throw Error("bench: no rank set {} within {} s", key, timeout_s);
    std::this_thread::yield();
  }
}

std::optional<std::string> SharedStore::try_get(const std::string& key) {
  const int written = std::min<int>(shared_.reserved, most_entries);
  for (const SharedRanks::Entry& entry : std::span(shared_.entries).first(written))
    if (entry.whole && key == entry.key) return entry.value;
  return {};
}

}  // namespace ringside::tools::bench
