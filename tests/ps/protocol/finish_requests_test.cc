#include "ps/protocol/finish_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Header to_finish(int worker) {
  Header header;
  header.kind = Kind::finish;
  header.worker = worker;
  return header;
}
std::vector<int> receivers(const Replies& replies) {
  std::vector<int> workers;
  for (const Reply& reply : replies) {
    EXPECT_EQ(reply.message.header.worker, reply.worker);
    EXPECT_TRUE(reply.message.header.reply);
    workers.push_back(reply.worker);
  }
  return workers;
}

TEST(FinishRequests, AreAnsweredTogetherAndOnce) {
  WorkerSeats seats(2);
  FinishRequests requests(2);
  requests.take(1, to_finish(1));
  EXPECT_THROW(requests.take(1, to_finish(1)), Error);
  EXPECT_THAT(receivers(requests.answer(seats)), IsEmpty());
  EXPECT_FALSE(requests.are_answered());
  EXPECT_THAT(requests.waiting(seats), ElementsAre(1));
  requests.take(0, to_finish(0));
  EXPECT_THAT(receivers(requests.answer(seats)), ElementsAre(0, 1));
  EXPECT_TRUE(requests.are_answered());
  EXPECT_THAT(receivers(requests.answer(seats)), IsEmpty());
  seats.finish(0);
  EXPECT_THAT(requests.waiting(seats), ElementsAre(1)) << "it may read the last values";
}

TEST(FinishRequests, DoNotWaitForALostWorkerButForTheNextInItsSeat) {
  WorkerSeats seats(3);
  FinishRequests requests(3);
  for (const int worker : {0, 1}) requests.take(worker, to_finish(worker));
  seats.lose(1);
  EXPECT_THAT(receivers(requests.answer(seats)), IsEmpty()) << "worker 2 still pushes";
  seats.join(1);
  requests.forget(1);
  requests.take(2, to_finish(2));
  EXPECT_THAT(receivers(requests.answer(seats)), IsEmpty()) << "worker 1 pushes again";
  seats.lose(1);
  EXPECT_THAT(receivers(requests.answer(seats)), ElementsAre(0, 2));
}

TEST(WorkerSeats, AreEmptyUntilANewProcessJoins) {
  WorkerSeats seats(2);
  seats.lose(1);
  EXPECT_TRUE(seats.is_lost(1));
  EXPECT_TRUE(seats.is_done(1));
  seats.join(1);
  EXPECT_FALSE(seats.is_lost(1));
  EXPECT_FALSE(seats.is_done(1));
  EXPECT_TRUE(seats.joins(1));
  seats.begin(1);
  EXPECT_FALSE(seats.joins(1));
  for (const int worker : {0, 1}) {
    EXPECT_FALSE(seats.all_done());
    seats.finish(worker);
  }
  EXPECT_TRUE(seats.all_done());
  EXPECT_EQ(seats.done(), 2);
}

}  // namespace
}  // namespace ringside::ps
