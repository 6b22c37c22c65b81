// Conformance tests of what ranks get when others of their group do not do their part. The tests
// are in failures_suite.cc. Each test program names the kinds of communicators that it tests with
// INSTANTIATE_TEST_SUITE_P.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/seconds_now.h"
#include "tests/peer/ranks.h"

namespace ringside::testing {

/// A run of ranks that share a communicator.
struct RunOfRanks {
  int size = 2;
  double timeout_s = 60;
  std::function<void(const Rank&)> body;
  int present = size;  // only the first ranks join; the others never come
};
struct EndOfRanks {
  std::vector<std::string> errors;  // what each rank threw; "" for one that threw nothing
  double seconds = 0;
};

/// A kind of communicator, and a function that runs ranks which share a communicator of this kind.
struct FailingRanks {
  std::string name;
  std::function<EndOfRanks(const RunOfRanks&)> run;
  /// Lets virtual time pass for a rank; null if ranks run in real time, in which no test sleeps.
  std::function<void(const Rank&, double seconds)> sleep{};
  double soon = 0.5;  // a timeout that some tests wait for
  /// Whether every rank sees what all others did last; ranks of several hosts ask each other.
  bool sees_all = true;
};

/// The end of ranks in real time, of which `errors_of` returns the errors.
inline EndOfRanks end_in_real_time(const std::function<std::vector<std::string>()>& errors_of) {
  const double begin = seconds_now();
  EndOfRanks out{errors_of()};
  out.seconds = seconds_now() - begin;
  return out;
}

class Failures : public ::testing::TestWithParam<FailingRanks> {
 protected:
  EndOfRanks run(const RunOfRanks& ranks) const { return GetParam().run(ranks); }
  std::vector<std::string> errors_of(int size, double timeout_s,
                                     const std::function<void(const Rank&)>& body) const {
    return run({size, timeout_s, body}).errors;
  }
  double soon() const { return GetParam().soon; }
  bool sees_all() const { return GetParam().sees_all; }
  bool simulated() const { return GetParam().sleep != nullptr; }
  void pass_virtual_time(const Rank& r, double seconds) const {
    if (simulated()) GetParam().sleep(r, seconds);
  }
  /// Expects exactly this time in a simulated world, and at least this time in the real one.
  void expect_seconds(double seconds, double expected) const {
    if (simulated())
      EXPECT_NEAR(seconds, expected, 1e-3);
    else
      EXPECT_GE(seconds, expected - 1e-3);
  }
  /// A regular expression for a time in an error: exactly this one in a simulated world.
  std::string text_of(double seconds) const {
    return simulated() ? fmt::format("{:.2f}", seconds) : "[0-9]+\\.[0-9]+";
  }
  /// Holds a rank in the group until all have come here; for a minute at most.
  void hold(const Rank& r) {
    if (simulated()) return pass_virtual_time(r, 10);
    std::unique_lock lock(mutex_);
    if (++here_ == r.size) all_here_.notify_all();
    all_here_.wait_for(lock, std::chrono::minutes(1), [&] { return here_ >= r.size; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int here_ = 0;
};

/// Tests of communicators whose errors name a late rank, and never one that waits for it.
class LateRanks : public Failures {};
/// Tests of communicators that look after a message's other end all the time.
class WatchedMessages : public Failures {};

inline std::string name_of_kind(const ::testing::TestParamInfo<FailingRanks>& info) {
  return info.param.name;
}

}  // namespace ringside::testing
