// A limit of memory, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

namespace ringside::testing {

/// Limits the memory of this process, and of the processes that it starts, until the destructor.
/// The limit is 2^50 bytes, which no process reaches, or the limit that was set before if that is
/// lower.
class MemoryLimit {
 public:
  /// RLIMIT_AS limits all memory, RLIMIT_DATA the memory that is written and not shared.
  explicit MemoryLimit(decltype(RLIMIT_AS) resource = RLIMIT_AS) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource, &before_), 0);
    limit_ = {std::min(rlim_t{1} << 50, before_.rlim_cur), before_.rlim_max};
    EXPECT_EQ(setrlimit(resource, &limit_), 0);
  }
  ~MemoryLimit() { setrlimit(resource_, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// The name of the limit in messages.
  std::string text() const {
    return "memory is limited to " + std::to_string(limit_.rlim_cur / 1'000'000) +
           (resource_ == RLIMIT_AS ? " MB (ulimit -v)" : " MB (ulimit -d)");
  }

 private:
  decltype(RLIMIT_AS) resource_;
  rlimit before_{}, limit_{};
};

}  // namespace ringside::testing
