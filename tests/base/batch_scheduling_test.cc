#include "core/base/batch_scheduling.h"

#include <gtest/gtest.h>

#include <sched.h>

#include <thread>

namespace ringside {
namespace {

int policy_of_a_thread() {
  int policy = -1;
  std::thread([&] { policy = sched_getscheduler(0); }).join();
  return policy;
}

TEST(BatchSchedulingTest, IsForThreadsThatStartMeanwhile) {
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "this process is scheduled otherwise";
  {
    const BatchScheduling scheduling;
    if (sched_getscheduler(0) != SCHED_BATCH) GTEST_SKIP() << "the system refuses SCHED_BATCH";
    {
      const BatchScheduling again;
      EXPECT_EQ(policy_of_a_thread(), SCHED_BATCH);
    }
    EXPECT_EQ(policy_of_a_thread(), SCHED_BATCH) << "the outer one lives on";
  }
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_EQ(policy_of_a_thread(), SCHED_OTHER);
}

}  // namespace
}  // namespace ringside
