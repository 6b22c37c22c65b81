// Results of asynchronous servers: corrected gradients, a centre, and means without lost workers.
#include <gmock/gmock.h>

#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

class AsynchronousServerTest : public ServerTest {
 protected:
  /// Plain SGD: p -= 0.1 * gradient.
  ServerConfig plain(int workers, ConsistencyRules rules) const {
    ServerConfig own = config(workers);
    own.rules = rules;
    own.optimizer.kind = "sgd";
    own.optimizer.momentum = own.optimizer.weight_decay = 0;
    return own;
  }
  Message push_of(int worker, std::size_t chunk, std::int64_t step, float value) {
    Message message = about(Kind::push_pull, worker, chunks_[chunk], step);
    message.frames.push_back(device_->tensor({chunks_[chunk].count}, MemoryKind::gradient));
    device_->kernels().fill({.out = message.frames[0], .value = value});
    return message;
  }
  /// The reply to a worker, which must be one of the replies.
  static const Message& reply_to(int worker, const Replies& replies) {
    for (const Reply& reply : replies)
      if (reply.worker == worker) return reply.message;
    throw Error("worker {} has no reply", worker);
  }
  std::vector<float> read(ParameterServer& server, std::size_t chunk) {
    return values_of(reply_to(0, server.handle(0, pull(0, chunk, 0))).frames.at(0));
  }
  static std::vector<float> moved(std::vector<float> values, float by) {
    for (float& one : values) one += by;
    return values;
  }
};

MATCHER(Close, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

TEST_F(AsynchronousServerTest, CorrectsAGradientForTheUpdatesSinceItsWorkerRead) {
  ServerConfig own = plain(2, {.consistency = Consistency::asp});
  own.delay_compensation = 0.5;
  ParameterServer server(model_, chunks_, *device_, own);
  const std::vector<float> initial = read(server, 0);
  server.handle(1, push_of(1, 0, 0, 3));
  // Now the values are 0.3 less than those that worker 0 has: 2 - 0.5 * 2 * 2 * 0.3 = 1.4.
  const Replies replies = server.handle(0, push_of(0, 0, 0, 2));
  EXPECT_THAT(values_of(reply_to(0, replies).frames.at(0)),
              Pointwise(Close(), moved(initial, -0.3f - 0.14f)));
  // Worker 0 has read since; worker 1 has not: 1 - 0.5 * 0.14 = 0.93.
  EXPECT_THAT(values_of(reply_to(0, server.handle(0, push_of(0, 0, 1, 1))).frames.at(0)),
              Pointwise(Close(), moved(initial, -0.44f - 0.1f)));
}

TEST_F(AsynchronousServerTest, DividesTheLearningRateOfWhatItHasCorrected) {
  ServerConfig own = plain(2, {.consistency = Consistency::asp});
  own.delay_compensation = 0.5;
  own.staleness_lr = StalenessLr::inverse;
  ParameterServer server(model_, chunks_, *device_, own);
  const std::vector<float> initial = read(server, 0);
  server.handle(1, push_of(1, 0, 0, 3));
  EXPECT_THAT(values_of(reply_to(0, server.handle(0, push_of(0, 0, 0, 2))).frames.at(0)),
              Pointwise(Close(), moved(initial, -0.3f - 0.14f / 2)));
}

TEST_F(AsynchronousServerTest, KeepsAtMostTheValuesOfEveryWorker) {
  constexpr int workers = 3;
  ServerConfig own = plain(workers, {.consistency = Consistency::asp});
  own.delay_compensation = 0.5;
  const std::int64_t before = device_->ledger().current()[MemoryKind::communication];
  ParameterServer server(model_, chunks_, *device_, own);
  for (std::int64_t step = 0; step < 4; ++step)
    for (int worker = 0; worker < workers; ++worker)
      for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk)
        server.handle(worker, push_of(worker, chunk, step, 1));
  EXPECT_EQ(device_->ledger().current()[MemoryKind::communication] - before, workers * 60 * 4);
}

TEST_F(AsynchronousServerTest, ACentreAndAWorkerMoveTowardsEachOther) {
  ServerConfig own = plain(2, {.consistency = Consistency::easgd});
  own.moving_rate = 0.25;
  const std::int64_t before = device_->ledger().current()[MemoryKind::optimizer];
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_EQ(device_->ledger().current()[MemoryKind::optimizer], before) << "workers optimize";
  const std::vector<float> initial = read(server, 0);
  // Steps between two exchanges are left out.
  const std::vector<float> difference =
      values_of(reply_to(1, server.handle(1, push_of(1, 0, 3, 2))).frames.at(0));
  for (std::size_t i = 0; i < initial.size(); ++i) {
    EXPECT_FLOAT_EQ(difference[i], 2 - initial[i]);
    EXPECT_FLOAT_EQ(read(server, 0)[i], initial[i] + 0.25f * difference[i]);
  }
  EXPECT_NE(refusal(server, 1, push_of(1, 0, 3, 2)).find("already"), std::string::npos);
  EXPECT_NE(refusal(server, 1, testing::message_of(token, Kind::measure, 1, 0)).find("no sums"),
            std::string::npos);
}

TEST_F(AsynchronousServerTest, ACentreNeedsNoSumsForTheOptimizersOfWorkers) {
  for (const char* kind : {"sgd", "lamb"}) {
    ServerConfig own = plain(2, {.consistency = Consistency::easgd});
    own.optimizer.kind = kind;
    own.optimizer.clip_norm = 1;
    const std::int64_t before = device_->ledger().current()[MemoryKind::gradient];
    const ParameterServer server(model_, chunks_, *device_, own);
    EXPECT_EQ(device_->ledger().current()[MemoryKind::gradient], before) << kind;
  }
}

TEST_F(AsynchronousServerTest, AWorkerThatHasNotReadHasTheInitialValuesOfTheServersStart) {
  for (const Consistency consistency : {Consistency::asp, Consistency::easgd}) {
    const double begin = device_->clock().now();
    ParameterServer server(model_, chunks_, *device_, plain(2, {.consistency = consistency}));
    server.handle(0, push_of(0, 0, 0, 1));
    RankRecord record;
    server.report(record);
    const double most = device_->clock().now() - begin;
    ASSERT_TRUE(record.staleness);
    const std::vector<std::int64_t>& times = record.staleness->times;
    ASSERT_FALSE(times.empty());
    EXPECT_LE(Staleness::time_of_bin(times.size() - 1), std::max(1e-6, 1.02 * most));
  }
}

TEST_F(AsynchronousServerTest, SspWithoutALostWorkerTakesTheMeanOfTheOthers) {
  ParameterServer server(model_, chunks_, *device_,
                         plain(3, {.consistency = Consistency::ssp, .staleness_bound = 1}));
  const std::vector<float> initial = read(server, 0);
  for (int worker = 0; worker < 3; ++worker) server.handle(worker, push_of(worker, 0, 0, 1));
  server.handle(0, push_of(0, 0, 1, 1));
  server.handle(1, push_of(1, 0, 1, 3));
  server.lose(2);
  // A third of 3 samples' mean each: 1 + 1 + 1, then (1 + 3) * 3 / 2.
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -0.3f - 0.6f)));
}

TEST_F(AsynchronousServerTest, NoReadIsBetweenUpdatesThatOneLossAllows) {
  ParameterServer server(model_, chunks_, *device_,
                         plain(2, {.consistency = Consistency::ssp, .staleness_bound = 1}));
  server.handle(0, push_of(0, 0, 0, 1));
  server.handle(0, push_of(0, 0, 1, 1));
  EXPECT_EQ(reply_to(0, server.lose(1)).header.version, 2);
}

/// Workers whose seats are taken again.
class SeatsOfWorkers : public AsynchronousServerTest {
 protected:
  Message join(int worker, std::int64_t step) const {
    return testing::message_of(token, Kind::join, worker, step);
  }
  /// Joins, and returns the first push.
  std::int64_t joined(ParameterServer& server, int worker) {
    const std::int64_t first =
        reply_to(worker, server.handle(worker, join(worker, 0))).header.version;
    server.handle(worker, join(worker, first));
    return first;
  }
  static std::string history(ParameterServer& server, std::size_t chunk) {
    RankRecord record;
    server.report(record);
    return record.history.at(chunk).events;
  }
};

TEST_F(SeatsOfWorkers, AProcessGoesOnWithThePushesThatNoChunkHas) {
  ParameterServer server(model_, chunks_, *device_, plain(2, {.consistency = Consistency::asp}));
  server.let_seats_be_taken_again();
  for (std::size_t chunk = 0; chunk < 3; ++chunk) server.handle(1, push_of(1, chunk, 0, 1));
  server.handle(1, push_of(1, 1, 1, 1));
  EXPECT_NE(refusal(server, 1, join(1, 0)).find("not empty"), std::string::npos);
  server.lose(1);
  EXPECT_TRUE(server.seats().is_lost(1));
  EXPECT_NE(refusal(server, 1, push_of(1, 0, 1, 1)).find("done"), std::string::npos);
  EXPECT_EQ(joined(server, 1), 2);
  EXPECT_FALSE(server.seats().is_lost(1));
  EXPECT_NE(refusal(server, 1, join(1, 2)).find("not empty"), std::string::npos);
  EXPECT_NE(refusal(server, 1, push_of(1, 0, 1, 1)).find("already been pushed"), std::string::npos);
  EXPECT_EQ(reply_to(1, server.handle(1, pull(1, 0, 2))).header.version, 1);
  EXPECT_EQ(reply_to(1, server.handle(1, push_of(1, 0, 2, 1))).header.version, 2);
  EXPECT_EQ(history(server, 0), "p1g1c1x2r1p1");
  EXPECT_EQ(history(server, 1), "p1p1g1c1x2");
}

TEST_F(SeatsOfWorkers, ADelayIsCorrectedFromTheValuesReadAnew) {
  ServerConfig own = plain(2, {.consistency = Consistency::asp});
  own.delay_compensation = 0.5;
  ParameterServer server(model_, chunks_, *device_, own);
  server.let_seats_be_taken_again();
  const std::vector<float> initial = read(server, 0);
  server.handle(1, push_of(1, 0, 0, 1));
  server.handle(0, push_of(0, 0, 0, 1));
  server.lose(1);
  joined(server, 1);
  server.handle(1, pull(1, 0, 1));
  const float before = values_of(reply_to(0, server.handle(0, pull(0, 0, 1))).frames.at(0)).at(0);
  const Replies replies = server.handle(1, push_of(1, 0, 1, 2));
  EXPECT_NEAR(values_of(reply_to(1, replies).frames.at(0)).at(0), before - 0.2F, 1e-6)
      << "nothing has changed since";
}

/// With bound 1 a worker may be one update ahead.
TEST_F(SeatsOfWorkers, UpdatesOfAllWaitForAProcessFromItsFirstPushOn) {
  ParameterServer server(model_, chunks_, *device_,
                         plain(3, {.consistency = Consistency::ssp, .staleness_bound = 1}));
  server.let_seats_be_taken_again();
  const std::vector<float> initial = read(server, 0);
  for (int worker = 0; worker < 3; ++worker) server.handle(worker, push_of(worker, 0, 0, 1));
  server.lose(2);
  server.handle(0, push_of(0, 0, 1, 1));  // the update under way
  EXPECT_EQ(reply_to(2, server.handle(2, join(2, 0))).header.version, 2);
  server.handle(1, push_of(1, 0, 1, 1));
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -0.6f)))
      << "the mean of two stands for three";
  for (int worker = 0; worker < 2; ++worker) server.handle(worker, push_of(worker, 0, 2, 1));
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -0.6f))) << "it is expected";
  // Another server has had a push of the process before.
  server.handle(2, join(2, 3));
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -0.9f)))
      << "but not to this update";
  EXPECT_EQ(reply_to(2, server.handle(2, pull(2, 0, 3))).header.version, 3);
  for (int worker = 0; worker < 2; ++worker) server.handle(worker, push_of(worker, 0, 3, 1));
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -0.9f)));
  server.handle(2, push_of(2, 0, 3, 1));
  EXPECT_THAT(read(server, 0), Pointwise(Close(), moved(initial, -1.2f)));
}

/// It is done before the launcher says that its seat is empty.
TEST_F(SeatsOfWorkers, NoMeetingIsHeldWithoutAWorkerThatLeaves) {
  ParameterServer server(model_, chunks_, *device_, plain(2, {.consistency = Consistency::asp}));
  server.let_seats_be_taken_again();
  server.meetings().plan(2, 10);
  server.handle(0, testing::message_of(token, Kind::meet, 0, 2));
  EXPECT_FALSE(server.has_meeting());
  server.handle(1, testing::message_of(token, Kind::done, 1, 0));
  ASSERT_TRUE(server.has_meeting());
  EXPECT_EQ(reply_to(0, server.end_meeting()).header.version, 0) << "it was left out";
  server.lose(1);
  joined(server, 1);
  for (const int worker : {0, 1}) {
    EXPECT_FALSE(server.has_meeting());
    server.handle(worker, testing::message_of(token, Kind::meet, worker, 4));
  }
  ASSERT_TRUE(server.has_meeting());
  EXPECT_EQ(reply_to(1, server.end_meeting()).header.version, 4);
}

TEST_F(SeatsOfWorkers, AProcessIsToldThatTheRunIsOver) {
  ParameterServer server(model_, chunks_, *device_, plain(2, {.consistency = Consistency::asp}));
  server.let_seats_be_taken_again();
  server.lose(1);
  const Replies over = server.handle(0, testing::message_of(token, Kind::finish, 0, 0));
  EXPECT_EQ(reply_to(0, over).header.kind, Kind::finish);
  EXPECT_EQ(reply_to(1, server.handle(1, join(1, 0))).header.scalar, 1);
  server.handle(1, join(1, 0));
  const Replies late = server.handle(1, testing::message_of(token, Kind::finish, 1, 0));
  EXPECT_EQ(reply_to(1, late).header.kind, Kind::finish);
}

TEST_F(SeatsOfWorkers, NobodyTakesASeatWhereTheRunDoesNotSaySo) {
  ParameterServer server(model_, chunks_, *device_, plain(2, {.consistency = Consistency::asp}));
  server.lose(1);
  EXPECT_NE(refusal(server, 1, join(1, 0)).find("done"), std::string::npos);
}

TEST_F(SeatsOfWorkers, AProcessIsNotMissedInSumsThatBeganWithoutIt) {
  ParameterServer server(model_, chunks_, *device_, plain(3, {.consistency = Consistency::asp}));
  server.let_seats_be_taken_again();
  server.handle(0, summand(0, 0, {1}));
  server.lose(1);
  joined(server, 1);
  const Replies replies = server.handle(2, summand(2, 0, {2}));
  EXPECT_THAT(doubles_of(reply_to(0, replies)), ::testing::ElementsAre(3));
  EXPECT_EQ(replies.size(), 2U);
}

/// Worker 1 dies after it has pushed chunk 0 alone, and worker 2 is late. Then chunk 0 is one
/// update ahead of chunk 1, for which worker 0 alone has pushed.
class BackupWorkers : public AsynchronousServerTest {
 protected:
  void die_in_mid_push(ParameterServer& server) {
    for (std::size_t chunk = 0; chunk < 3; ++chunk)
      for (const int worker : {0, 1}) server.handle(worker, push_of(worker, chunk, 0, 1));
    before_ = read(server, 1);
    server.handle(1, push_of(1, 0, 1, 1));
    for (std::size_t chunk = 0; chunk < 3; ++chunk) server.handle(0, push_of(0, chunk, 1, 1));
    for (std::size_t chunk = 0; chunk < 3; ++chunk) {
      const Replies late = server.handle(2, push_of(2, chunk, 0, 1));
      EXPECT_EQ(reply_to(2, late).header.version, chunk == 0 ? 2 : 1);
    }
    server.lose(1);
  }
  std::vector<float> before_;
};

TEST_F(BackupWorkers, GoOnAfterOneHasDiedInMidPush) {
  ParameterServer server(model_, chunks_, *device_, plain(3, {.backup_workers = 1}));
  die_in_mid_push(server);
  // The newest version that worker 2 has read is 2, so no worker can push an update 1 any more.
  // Its push to one chunk says so to all, before it has pushed to them.
  const Replies replies = server.handle(2, push_of(2, 0, 2, 1));
  EXPECT_EQ(replies.size(), 2U) << "worker 0 gets chunks 1 and 2";
  const Message& late = reply_to(0, replies);
  EXPECT_EQ(late.header.version, 2);
  EXPECT_TRUE(server.handle(2, push_of(2, 1, 2, 1)).empty());
  EXPECT_THAT(values_of(late.frames.at(0)), Pointwise(Close(), moved(before_, -0.2f)))
      << "the only gradient stands for two";
  EXPECT_EQ(reply_to(2, server.handle(0, push_of(0, 1, 2, 1))).header.version, 3);
}

TEST_F(BackupWorkers, RefuseAStepThatTheRunDoesNotHave) {
  ParameterServer server(model_, chunks_, *device_, plain(3, {.backup_workers = 1}));
  for (const std::int64_t step : {std::int64_t{10}, std::int64_t{1} << 40})
    EXPECT_NE(refusal(server, 1, push_of(1, 0, step, 1)).find("but the run has 10 steps"),
              std::string::npos);
  EXPECT_EQ(refusal(server, 1, push_of(1, 0, 9, 1)), "");
}

TEST_F(BackupWorkers, DoNotWaitForWorkersThatAreDone) {
  ParameterServer server(model_, chunks_, *device_, plain(3, {.backup_workers = 1}));
  die_in_mid_push(server);
  const Replies replies = server.handle(2, testing::message_of(token, Kind::finish, 2, 0));
  EXPECT_EQ(reply_to(0, replies).header.version, 2);
}

/// It may wait for the values of another chunk, which come once this one has been updated.
TEST_F(BackupWorkers, DoNotWaitForAProcessThatHasNotPushedYet) {
  ParameterServer server(model_, chunks_, *device_, plain(3, {.backup_workers = 1}));
  server.let_seats_be_taken_again();
  die_in_mid_push(server);
  // Chunk 0 has version 2, chunk 1 has version 1 and one gradient, of worker 0.
  for (int time = 0; time < 2; ++time)
    server.handle(1, testing::message_of(token, Kind::join, 1, 2 * time));
  const Replies replies = server.handle(2, push_of(2, 1, 2, 1));
  EXPECT_EQ(reply_to(0, replies).header.version, 2) << "worker 2 will not push update 1 either";
  server.handle(0, push_of(0, 0, 2, 1));
  EXPECT_EQ(reply_to(0, server.handle(2, push_of(2, 0, 2, 1))).header.version, 3);
  EXPECT_EQ(reply_to(1, server.handle(1, pull(1, 0, 2))).header.version, 3);
  // From its first push on it counts.
  server.handle(1, push_of(1, 0, 3, 1));
  EXPECT_EQ(reply_to(1, server.handle(0, push_of(0, 0, 3, 1))).header.version, 4);
}

TEST_F(BackupWorkers, LeaveOutAnUpdateThatNoWorkerCanMake) {
  ParameterServer server(model_, chunks_, *device_, plain(4, {.backup_workers = 2}));
  const std::vector<float> initial = read(server, 1);
  for (const int worker : {0, 1}) server.handle(worker, push_of(worker, 0, 0, 1));
  for (const int worker : {0, 1}) server.lose(worker);
  for (const int worker : {2, 3}) server.handle(worker, push_of(worker, 0, 0, 1));
  server.handle(2, push_of(2, 1, 1, 1));
  const Replies replies = server.handle(3, push_of(3, 1, 1, 1));
  EXPECT_EQ(reply_to(2, replies).header.version, 2);
  EXPECT_THAT(values_of(reply_to(2, replies).frames.at(0)),
              Pointwise(Close(), moved(initial, -0.2f)));
}

}  // namespace
}  // namespace ringside::ps
