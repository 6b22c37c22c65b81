#include "core/comm/store.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/base/seconds_now.h"
#include "core/base/waiting_time.h"

namespace ringside {
namespace {

constexpr double longest_nap_s = 0.1;

}  // namespace

void MemoryStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  if (!values_.emplace(key, value).second) throw Error("store: key '{}' is set twice", key);
  changed_.notify_all();
}

std::optional<std::string> MemoryStore::try_get(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::string MemoryStore::get(const std::string& key, double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto is_set = [&] { return values_.contains(key); };
  const std::chrono::duration<double> nap(std::min(longest_nap_s, timeout_s));
  WaitingTime waited(seconds_now(), nap.count());
  while (!changed_.wait_for(lock, nap, is_set))
    if (waited.seconds(seconds_now()) >= timeout_s)
      throw Error("store: key '{}' was not set within {} s", key, timeout_s);
  return values_.at(key);
}

}  // namespace ringside
