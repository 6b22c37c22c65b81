// The rendezvous store of a run, which one process serves to the ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ringside {

/// The limits on what ranks may leave in a store. A rank that this process did not start is not
/// trusted.
struct StoreLimits {
  std::size_t bytes = std::numeric_limits<std::size_t>::max();      // of keys and values
  std::size_t questions = std::numeric_limits<std::size_t>::max();  // asked before the key was set
};

/// Holds the values, and the questions of ranks for keys that have not been set. The ranks' end is
/// LinkStore.
class StoreServer {
 public:
  using Send = std::function<void(int rank, const nlohmann::json& value)>;

  /// `send` sends a message to a rank.
  explicit StoreServer(Send send, StoreLimits limits = {})
      : send_(std::move(send)), limits_(limits) {}

  /// Takes {"set": [key, value]} or {"get": key} from a rank; returns false for another message.
  /// Throws Error if the store is full, and nlohmann::json::exception for a malformed
  /// message.
  bool hear(int rank, const nlohmann::json& value);
  /// Sets a key, and answers the ranks that wait for it.
  void set(const std::string& key, const std::string& text);
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  void answer(int rank, const std::string& key);

  Send send_;
  StoreLimits limits_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<int>> waiting_;  // ranks, by key
  std::size_t bytes_ = 0, asked_ = 0;
};

}  // namespace ringside
