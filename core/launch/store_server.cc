#include "core/launch/store_server.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"

namespace ringside {

bool StoreServer::hear(int rank, const nlohmann::json& value) {
  if (value.contains("set")) {
    const auto [key, text] = value["set"].get<std::pair<std::string, std::string>>();
    set(key, text);
    return true;
  }
  if (!value.contains("get")) return false;
  const auto key = value["get"].get<std::string>();
  if (values_.contains(key)) {
    answer(rank, key);
    return true;
  }
  if (++asked_ > limits_.questions)
    throw Error("the store keeps {} questions at most", limits_.questions);
  waiting_[key].push_back(rank);
  return true;
}

void StoreServer::set(const std::string& key, const std::string& text) {
  const auto [kept, is_new] = values_.try_emplace(key);
  bytes_ += (is_new ? key.size() : 0) + text.size() - kept->second.size();
  kept->second = text;
  if (bytes_ > limits_.bytes) throw Error("the store has {} bytes at most", limits_.bytes);
  if (const auto waiting = waiting_.extract(key))
    for (const int rank : waiting.mapped()) answer(rank, key);
}

void StoreServer::answer(int rank, const std::string& key) {
  send_(rank, {{"value", {key, values_.at(key)}}});
}

}  // namespace ringside
