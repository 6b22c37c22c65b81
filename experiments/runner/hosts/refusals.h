// Messages about connections and processes that a job refuses.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "core/base/seconds_now.h"

namespace ringside::runner {

/// The messages about refusals, at a limited rate because strangers can cause them. Each cause is
/// reported once, and at most `most_causes` causes in `interval_s`. Further refusals are counted,
/// and one line for each interval reports their number. For one thread.
class Refusals {
 public:
  static constexpr double interval_s = 10;
  static constexpr int most_causes = 5;

  explicit Refusals(std::function<void(const std::string& line)> say,
                    std::function<double()> now = seconds_now)
      : say_(std::move(say)), now_(std::move(now)), since_(now_()) {}
  /// Reports the number of refusals that are still counted.
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  /// `count` connections or processes were refused for the same cause.
  void add(const std::string& cause, std::size_t count = 1);
  /// Reports the count once an interval is over; call this often.
  void look();
  std::size_t total() const { return total_; }

 private:
  void say_counted();

  std::function<void(const std::string&)> say_;
  std::function<double()> now_;
  double since_;  // when the interval began
  int said_ = 0;  // causes, in the interval
  std::size_t counted_ = 0, total_ = 0;
  std::string last_;  // cause that was counted
  std::set<std::string> known_;
};

}  // namespace ringside::runner
