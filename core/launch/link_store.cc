#include "core/launch/link_store.h"

#include <nlohmann/json.hpp>

namespace ringside {

void LinkStore::set(const std::string& key, const std::string& value) {
  line_.send({{"set", {key, value}}});
}

std::string LinkStore::get(const std::string& key, double timeout_s) {
  ask(key);
  return answers_.get(key, timeout_s);
}

std::optional<std::string> LinkStore::try_get(const std::string& key) {
  ask(key);
  return answers_.try_get(key);
}

void LinkStore::ask(const std::string& key) {
  std::lock_guard lock(mutex_);
  if (asked_.insert(key).second) line_.send({{"get", key}});
}

}  // namespace ringside
