#include "core/base/error_text.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <system_error>

#include "tests/support/memory_limit.h"

namespace ringside {
namespace {

TEST(LimitHint, NamesTheLimitOfMemoryWhereMemoryIsMissing) {
  const testing::MemoryLimit limit;
  EXPECT_EQ(limit_hint(std::string("mmap: ") + std::strerror(ENOMEM)), "; " + limit.text());
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS})
    EXPECT_EQ(limit_hint("", signal), "; " + limit.text());
  EXPECT_EQ(limit_hint("", SIGKILL), "");
  EXPECT_EQ(limit_hint("the loss is nan"), "");
}

bool is_limited(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  EXPECT_EQ(getrlimit(resource, &limit), 0);
  return limit.rlim_cur != RLIM_INFINITY;
}

TEST(LimitHint, NamesTheLimitOfDataWhereItIsTheOnlyOne) {
  if (is_limited(RLIMIT_AS)) GTEST_SKIP() << "all memory is limited";
  const testing::MemoryLimit limit(RLIMIT_DATA);
  EXPECT_EQ(limit_hint("", SIGABRT), "; " + limit.text());
}

TEST(LimitHint, NamesNoLimitThatIsNotSet) {
  if (is_limited(RLIMIT_AS) || is_limited(RLIMIT_DATA)) GTEST_SKIP() << "memory is limited";
  EXPECT_EQ(limit_hint(std::strerror(ENOMEM)), "");
  EXPECT_EQ(limit_hint("", SIGSEGV), "");
}

// A thread may fail to start because of the limit on memory, or because of the limit on processes
// and threads. The system does not say which of the two limits it was.
TEST(Explain, AThreadThatCannotBeStartedMayMeetTheLimitOfMemory) {
  const testing::MemoryLimit limit;
  const std::system_error refused(std::make_error_code(std::errc::resource_unavailable_try_again));
  const std::string text = error_text(refused);
  EXPECT_EQ(text.find("a thread could not be started: Resource temporarily unavailable; its stack "
                      "may not fit; " +
                      limit.text() +
                      "; or this user has as many processes and threads as the limit allows"),
            0u)
      << text;
}

TEST(Explain, MissingMemoryIsSaidInWords) {
  EXPECT_EQ(error_text(std::bad_alloc()).find("there is no memory left"), 0u);
}

}  // namespace
}  // namespace ringside
