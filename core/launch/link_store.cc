#include "core/launch/link_store.h"

#include <nlohmann/json.hpp>

namespace ringside {

void LinkStore::set(const std::string& key, const std::string& value) {
  line_.send({{"set", {key, value}}});
}

std::string LinkStore::get(const std::string& key, double timeout_s) {
  {
    std::lock_guard lock(mutex_);
    if (asked_.insert(key).second) line_.send({{"get", key}});
  }
  return answers_.get(key, timeout_s);
}

}  // namespace ringside
