#include "core/comm/store.h"

#include <chrono>

#include "core/base/error.h"

namespace ringside {

void MemoryStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  if (!values_.emplace(key, value).second) throw Error("store: key '{}' is set twice", key);
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto is_set = [&] { return values_.contains(key); };
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), is_set))
    throw Error("store: nobody set '{}' within {} s", key, timeout_s);
  return values_.at(key);
}

}  // namespace ringside
