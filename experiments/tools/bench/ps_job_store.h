// The store of a job's ranks, served by its scheduler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/json_line.h"
#include "experiments/tools/bench/rank_group.h"

namespace ringside {

/// Serves the store in a thread of its own. A rank that sends invalid requests, stores too much, or
/// does not read its answers for 1 s, is disconnected.
class JobStore {
 public:
  /// `lines` lead to the ranks, which have these names. `on_refused` is called by the thread, and
  /// by end().
  JobStore(std::vector<std::unique_ptr<JsonLine>> lines, std::vector<std::string> names,
           std::function<void(const std::string& cause)> on_refused);

  /// Tells the ranks that the job is over, and blocks until each confirms, or ends. Reports those
  /// that have not done so in time.
  void end(const Patience& patience);
  /// The names of the ranks whose lines have ended before the job was over.
  std::vector<std::string> gone() const { return those(State::gone); }

 private:
  enum class State : std::uint8_t { open, heard, gone };

  std::vector<std::string> those(State state) const;
  void set_state(std::size_t rank, State state);
  void cut_off(std::size_t rank, const std::string& cause);
  void run(const std::stop_token& stop);
  void handle(std::size_t rank, const nlohmann::json& value);
  void answer(std::size_t rank, const std::string& key);

  std::vector<std::unique_ptr<JsonLine>> lines_;  // by rank
  std::vector<std::string> names_;
  std::function<void(const std::string&)> on_refused_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::vector<std::size_t>> waiting_;  // ranks, by key
  std::size_t bytes_ = 0, asked_ = 0;
  std::atomic<bool> over_ = false;
  mutable std::mutex mutex_;
  std::vector<State> states_;  // by rank
  std::jthread thread_;
};

}  // namespace ringside
