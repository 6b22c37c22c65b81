#include "ps/protocol/clocks.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

TEST(Clocks, AReaderWaitsForEveryWorker) {
  const auto bsp = make_policy({}, 3);
  Clocks clocks(*bsp, 3);
  clocks.push(2, 0, 0, 0);
  clocks.push(0, 0, 0, 0);
  EXPECT_EQ(clocks.complete(), 0);
  clocks.push(1, 0, 0, 0);
  EXPECT_EQ(clocks.complete(), 1);
}

TEST(Clocks, AStepOfSeveralPushesIsThereWithItsLast) {
  const auto bsp = make_policy({}, 2);
  Clocks clocks(*bsp, 2, 3);
  for (std::int64_t number = 0; number < 3; ++number)
    for (int worker = 0; worker < 2; ++worker) {
      EXPECT_EQ(clocks.complete(), 0);
      EXPECT_EQ(clocks.next(worker), number);
      EXPECT_EQ(clocks.push(worker, 0, number, number), number);
    }
  EXPECT_EQ(clocks.complete(), 1);
  EXPECT_THROW(clocks.push(0, 1, 1, 3), Error) << "push 0 is due";
  EXPECT_THROW(clocks.push(0, 1, 3, 3), Error) << "there are three";
  EXPECT_EQ(clocks.push(0, 1, 0, 3), 3);
  EXPECT_THROW(clocks.push(0, 1, 0, 3), Error) << "it was there";
  EXPECT_THROW(clocks.push(0, 1, 1, 3), Error) << "worker 1's push 0 is missing";
}

TEST(Clocks, RefuseAStepThatIsNotTheNextAndStayAsTheyWere) {
  const auto bsp = make_policy({}, 2);
  Clocks clocks(*bsp, 2);
  EXPECT_THROW(clocks.push(0, 1, 0, 0), Error);
  EXPECT_THROW(clocks.push(0, -1, 0, 0), Error);
  EXPECT_THROW(clocks.push(0, INT64_MAX / 2, 0, 0), Error);
  clocks.push(0, 0, 0, 0);
  EXPECT_THROW(clocks.push(0, 0, 0, 0), Error);
  EXPECT_THROW(clocks.push(0, 1, 0, 0), Error) << "worker 1 has not pushed step 0";
  EXPECT_EQ(clocks.next(0), 1);
  clocks.push(1, 0, 0, 0);
  clocks.push(0, 1, 0, 1);
  EXPECT_EQ(clocks.next(0), 2);
}

TEST(Clocks, WithSspAWorkerIsAtMostTheBoundAhead) {
  const auto ssp = make_policy({.consistency = Consistency::ssp, .staleness_bound = 2}, 2);
  Clocks clocks(*ssp, 2);
  for (std::int64_t step = 0; step < 3; ++step) clocks.push(0, step, 0, 0);
  EXPECT_THROW(clocks.push(0, 3, 0, 0), Error);
  clocks.push(1, 0, 0, 0);
  clocks.push(0, 3, 0, 1);
  EXPECT_THROW(clocks.push(0, 5, 0, 3), Error) << "no step is left out";
}

TEST(Clocks, DoNotWaitForAWorkerThatHasLeft) {
  const auto ssp = make_policy({.consistency = Consistency::ssp, .staleness_bound = 2}, 3);
  Clocks clocks(*ssp, 3);
  clocks.push(0, 0, 0, 0);
  clocks.push(2, 0, 0, 0);
  EXPECT_EQ(clocks.complete(), 0);
  clocks.leave(1);
  EXPECT_EQ(clocks.complete(), 1);
  EXPECT_FALSE(clocks.is_there(1));
}

TEST(Clocks, AwaitANewProcessFromItsFirstPushOn) {
  const auto ssp = make_policy({.consistency = Consistency::ssp, .staleness_bound = 2}, 2);
  Clocks clocks(*ssp, 2);
  EXPECT_TRUE(clocks.are_all_there());
  clocks.leave(1);
  EXPECT_FALSE(clocks.are_all_there());
  EXPECT_FALSE(clocks.is_awaited(1, 0));
  clocks.come(1, 3);
  EXPECT_TRUE(clocks.are_all_there());
  EXPECT_FALSE(clocks.is_awaited(1, 2)) << "that update is over for it";
  EXPECT_TRUE(clocks.is_awaited(1, 3));
  EXPECT_TRUE(clocks.is_awaited(0, 0));
}

TEST(Clocks, KnowWhetherAnUpdateCanGetAnotherGradient) {
  const auto backup = make_policy({.backup_workers = 1}, 3);
  Clocks clocks(*backup, 3);
  for (const int worker : {0, 1}) clocks.push(worker, 0, 0, 0);
  EXPECT_TRUE(clocks.can_still_push(0)) << "worker 2 can";
  clocks.leave(2);
  EXPECT_FALSE(clocks.can_still_push(0)) << "the others have";
  EXPECT_TRUE(clocks.can_still_push(1));
  clocks.come(2, 1);
  for (const int worker : {0, 1}) clocks.push(worker, 1, 0, 1);
  EXPECT_FALSE(clocks.can_still_push(1)) << "a new process may wait itself";
  clocks.push(2, 1, 0, 1);
  EXPECT_FALSE(clocks.can_still_push(1));
  EXPECT_TRUE(clocks.can_still_push(2)) << "now it has pushed";
}

TEST(Policies, SspWithoutStalenessIsBsp) {
  const auto ssp = make_policy({.consistency = Consistency::ssp}, 3);
  const auto bsp = make_policy({}, 3);
  for (std::int64_t number = 0; number < 3; ++number)
    for (std::int64_t version = 0; version < 3; ++version)
      EXPECT_EQ(ssp->may_read(number, version), bsp->may_read(number, version));
  EXPECT_TRUE(ssp->values_rest());
  EXPECT_EQ(ssp->most_ahead(), bsp->most_ahead());
}

TEST(Policies, SayWhichUpdateAGradientBelongsToAndWhoMayRead) {
  const auto ssp = make_policy({.consistency = Consistency::ssp, .staleness_bound = 1}, 3);
  EXPECT_EQ(ssp->update_of(4, 3), 4);
  EXPECT_EQ(ssp->gradients(3), 3);
  EXPECT_TRUE(ssp->may_read(4, 3));
  EXPECT_FALSE(ssp->may_read(5, 3));
  const auto asp = make_policy({.consistency = Consistency::asp}, 3);
  EXPECT_EQ(asp->update_of(4, 9), 9);
  EXPECT_EQ(asp->gradients(3), 1);
  EXPECT_TRUE(asp->may_read(100, 0));
  const auto easgd = make_policy({.consistency = Consistency::easgd}, 3);
  EXPECT_EQ(easgd->update_of(4, 9), 9);
  EXPECT_TRUE(easgd->may_skip()) << "workers push after some of their steps";
  const auto backup = make_policy({.backup_workers = 1}, 3);
  EXPECT_EQ(backup->update_of(4, 4), 4);
  EXPECT_EQ(backup->update_of(4, 5), std::nullopt);
  EXPECT_EQ(backup->gradients(3), 2);
  EXPECT_FALSE(backup->may_read(5, 4));
}

}  // namespace
}  // namespace ringside::ps
