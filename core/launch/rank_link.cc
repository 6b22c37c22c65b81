#include "core/launch/rank_link.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

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

RankLink::RankLink(std::unique_ptr<JsonLine> line, std::function<void(const std::string&)> on_end)
    : line_(std::move(line)),
      store_(*line_),
      on_end_(std::move(on_end)),
      receiver_([this] { receive(); }) {}

RankLink::~RankLink() {
  {
    std::lock_guard lock(mutex_);
    on_end_ = {};
  }
  line_->stop_receiving();
  receiver_.join();
}

void RankLink::receive() {
  std::string why;
  try {
    while (const auto values = line_->receive())
      for (const nlohmann::json& value : *values) {
        if (value.contains("value")) {
          const auto& [key, text] = value["value"].get<std::pair<std::string, std::string>>();
          store_.answer(key, text);
          continue;
        }
        std::lock_guard lock(mutex_);
        messages_.push_back(value);
        changed_.notify_all();
      }
  } catch (const nlohmann::json::exception& error) {
    why = error.what();
  }
  std::function<void(const std::string&)> on_end;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    on_end = std::move(on_end_);
  }
  if (on_end) on_end(why);
}

std::optional<nlohmann::json> RankLink::hear(double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto news = [this] { return ended_ || !messages_.empty(); };
  if (timeout_s < 0)
    changed_.wait(lock, news);
  else if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), news))
    return nlohmann::json();
  if (messages_.empty()) return {};
  nlohmann::json next = std::move(messages_.front());
  messages_.pop_front();
  return next;
}

}  // namespace ringside
