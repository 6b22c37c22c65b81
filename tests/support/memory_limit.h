// A limit of memory, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>

namespace ringside::testing {

/// Limits the memory of this process, and of those that it starts, until the end of its scope. The
/// limit is one that no process meets, unless the process was limited before.
class MemoryLimit {
 public:
  MemoryLimit() {
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    limit_ = {std::min(rlim_t{1} << 50, before_.rlim_cur), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit_), 0);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// What messages say of the limit.
  std::string text() const {
    return "memory is limited to " + std::to_string(limit_.rlim_cur / 1'000'000) +
           " MB (ulimit -v)";
  }

 private:
  rlimit before_{}, limit_{};
};

}  // namespace ringside::testing
