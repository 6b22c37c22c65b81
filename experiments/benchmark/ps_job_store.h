// The store of a job's ranks, which its scheduler serves.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/launch/json_line.h"

namespace ringside {

/// Waits a moment, until one of the files can be read or has ended; says which. -1: none.
std::vector<bool> poll_files(const std::vector<int>& files);

/// Serves the store in a thread of its own. A rank that says what makes no sense, or stores too
/// much, is cut off.
class JobStore {
 public:
  /// `lines` lead to the ranks, which have these names. `on_refused` is called by the thread.
  JobStore(std::vector<std::unique_ptr<JsonLine>> lines, std::vector<std::string> names,
           std::function<void(const std::string& cause)> on_refused);

  /// Tells the ranks that the job is over, and waits until they have heard it and ended, two
  /// seconds at most.
  void end();

 private:
  void run(const std::stop_token& stop);
  void handle(std::size_t rank, const nlohmann::json& value);
  void answer(std::size_t rank, const std::string& key);

  std::vector<std::unique_ptr<JsonLine>> lines_;  // by rank
  std::vector<std::string> names_;
  std::function<void(const std::string&)> on_refused_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::size_t>> waiting_;  // ranks, by key
  std::size_t bytes_ = 0, asked_ = 0;
  std::atomic<std::size_t> left_;  // ranks whose lines have not ended
  std::jthread thread_;
};

}  // namespace ringside
