// A rank's end of the line to the process that runs it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "core/base/json_line.h"
#include "core/comm/store.h"

namespace ringside {

/// The launcher's store, as a rank sees it. Sends {"set": [key, value]} and {"get": key}. get()
/// waits for the answers {"value": [key, value]}; the reader of the line passes them to answer().
/// Thread-safe.
class LinkStore : public Store {
 public:
  /// The line outlives the store.
  explicit LinkStore(JsonLine& line) : line_(line) {}

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, double timeout_s) override;
  std::optional<std::string> try_get(const std::string& key) override;
  void answer(const std::string& key, const std::string& value) { answers_.set(key, value); }

 private:
  void ask(const std::string& key);

  JsonLine& line_;
  std::mutex mutex_;
  std::set<std::string> asked_;
  MemoryStore answers_;
};

/// Receives in a thread of its own: hands answers to the store, and keeps all other messages until
/// hear() asks for them.
class RankLink {
 public:
  /// `on_end` is called by the thread when the line has ended, with the reason if the other end has
  /// sent something that is no message.
  explicit RankLink(std::unique_ptr<JsonLine> line,
                    std::function<void(const std::string& why)> on_end = {});
  ~RankLink();
  RankLink(const RankLink&) = delete;
  RankLink& operator=(const RankLink&) = delete;

  Store& store() { return store_; }
  /// Returns false if the other end is gone.
  bool send(const nlohmann::json& value) { return line_->send(value); }
  /// Ends the line for the other end, once it has received all that was sent.
  void stop_sending() { line_->stop_sending(); }
  /// The next message. Null if none comes within `timeout_s` (negative: no limit); none once the
  /// line has ended.
  std::optional<nlohmann::json> hear(double timeout_s = -1);

 private:
  void receive();

  std::unique_ptr<JsonLine> line_;
  LinkStore store_;
  std::function<void(const std::string&)> on_end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nlohmann::json> messages_;
  bool ended_ = false;
  std::thread receiver_;
};

}  // namespace ringside
