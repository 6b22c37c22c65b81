// A store that another process serves over a stream socket.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>

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

}  // namespace ringside
