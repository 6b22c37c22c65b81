// The key-value store of a run, which all its ranks can read and write.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ringside {

/// The prefix of keys whose values are for the user: launch() returns them with the run's result.
inline constexpr std::string_view kept_key = "kept/";

/// The key that the launcher sets when the process of a worker has ended and the run goes on
/// (RunPlan::expendable). `process` is the number of the process in this worker's seat.
inline std::string lost_key(int worker, std::int64_t process = 0) {
  return "lost/worker-" + std::to_string(worker) + "/" + std::to_string(process);
}
/// The key that the launcher sets when this process should leave its seat after a step.
inline std::string leave_key(int worker, std::int64_t process) {
  return "leave/worker-" + std::to_string(worker) + "/" + std::to_string(process);
}

/// The key that the launcher sets when the run should write a checkpoint and end.
inline constexpr const char* stop_key = "stop";

/// The key that the launcher of an elastic run sets when the world should change.
inline constexpr const char* change_key = "change";

/// Each key is written only once. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Blocks until the key is set. Throws Error that names the key if this takes longer than
  /// `timeout_s`.
  virtual std::string get(const std::string& key, double timeout_s) = 0;
  /// The value if this process knows it already; does not block. A value that was just set may be
  /// returned only by a later call.
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
};

/// A part of a store for some of a run's ranks, so that its keys are not those of others: every key
/// has a suffix there, but for those that the launcher sets for all ranks.
class StorePart : public Store {
 public:
  /// `whole` outlives the part.
  StorePart(Store& whole, std::string suffix) : whole_(whole), suffix_(std::move(suffix)) {}
  void set(const std::string& key, const std::string& value) override {
    whole_.set(own(key), value);
  }
  std::string get(const std::string& key, double timeout_s) override {
    return whole_.get(own(key), timeout_s);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    return whole_.try_get(own(key));
  }

 private:
  std::string own(const std::string& key) const {
    return key == stop_key || key == change_key ? key : key + suffix_;
  }

  Store& whole_;
  std::string suffix_;
};

/// For ranks that are threads of one process.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, double timeout_s) override;
  std::optional<std::string> try_get(const std::string& key) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace ringside
