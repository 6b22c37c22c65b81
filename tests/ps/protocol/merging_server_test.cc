// Servers that merge the pushes of a quorum of workers, and that give workers steps by their speed.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/schemes/async_diloco.h"
#include "ps/schemes/decoupled_diloco.h"
#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class MergingServerTest : public ServerTest {
 protected:
  /// Plain SGD: p -= 0.5 * mean.
  ServerConfig merging(int workers, int quorum, double grace_s) const {
    ServerConfig own = config(workers);
    own.policy = make_quorum_policy(quorum, grace_s);
    own.optimizer.kind = "sgd";
    own.optimizer.lr = 0.5;
    own.optimizer.momentum = own.optimizer.weight_decay = 0;
    return own;
  }
  /// A push of a chunk after the worker's step `step`, whose elements are all `value`.
  Message push_of(int worker, std::int64_t step, float value, double weight,
                  std::size_t chunk = 0) {
    Message message = about(Kind::push_pull, worker, chunks_[chunk], step);
    message.header.scalar = weight;
    message.frames.push_back(device_->tensor({chunks_[chunk].count}, MemoryKind::gradient));
    device_->kernels().fill({.out = message.frames[0], .value = value});
    return message;
  }
  static std::vector<int> workers_of(const Replies& replies) {
    std::vector<int> workers;
    for (const Reply& reply : replies) {
      EXPECT_EQ(reply.message.header.kind, Kind::push_pull) << reply.message.header.text;
      workers.push_back(reply.worker);
    }
    return workers;
  }
  static std::vector<float> moved(std::vector<float> values, float by) {
    for (float& one : values) one += by;
    return values;
  }
  std::vector<float> read(ParameterServer& server) {
    return values_of(
        server.handle(0, about(Kind::peek, 0, chunks_[0], 0)).at(0).message.frames.at(0));
  }
  static std::string history_of(ParameterServer& server) {
    RankRecord record;
    server.report(record);
    return record.history.at(0).events;
  }
};

MATCHER(Near, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

TEST_F(MergingServerTest, AQuorumIsEnoughAndALateWorkerIsPartOfTheNextMerge) {
  ParameterServer server(model_, chunks_, *device_, merging(3, 2, 0));
  const std::vector<float> initial = read(server);
  EXPECT_THAT(server.handle(2, push_of(2, 3, 1, 4)), IsEmpty()) << "one of two";
  const Replies merged = server.handle(0, push_of(0, 0, 5, 1));
  EXPECT_THAT(workers_of(merged), UnorderedElementsAre(0, 2));
  // The mean is (4 * 1 + 1 * 5) / 5 = 1.8.
  EXPECT_THAT(values_of(merged[0].message.frames.at(0)), Pointwise(Near(), moved(initial, -0.9F)));
  EXPECT_THAT(server.handle(1, push_of(1, 7, 2, 2)), IsEmpty());
  const Replies next = server.handle(2, push_of(2, 4, 4, 2));
  EXPECT_THAT(workers_of(next), UnorderedElementsAre(1, 2));
  EXPECT_THAT(values_of(next[0].message.frames.at(0)),
              Pointwise(Near(), moved(initial, -0.9F - 1.5F)));
  EXPECT_EQ(history_of(server), "r0a2x4a0t0t2m0r2r0a1x8a2t1t2m0r1r2");
}

TEST_F(MergingServerTest, AMergeWaitsForItsTimeOrForAllWorkers) {
  ParameterServer server(model_, chunks_, *device_, merging(3, 2, 1e6));
  const std::vector<float> initial = read(server);
  EXPECT_FALSE(server.due());
  server.handle(0, push_of(0, 0, 1, 1));
  EXPECT_FALSE(server.due()) << "there is no quorum";
  EXPECT_THAT(server.handle(1, push_of(1, 0, 2, 1)), IsEmpty());
  ASSERT_TRUE(server.due());
  EXPECT_NEAR(*server.due(), device_->clock().now() + 1e6, 60);
  EXPECT_THAT(server.wake(), IsEmpty()) << "it is too early";
  EXPECT_THAT(read(server), Pointwise(Near(), initial));
  EXPECT_THAT(server.patient(), ElementsAre(0, 1));
  EXPECT_THAT(workers_of(server.handle(2, push_of(2, 0, 3, 1))), UnorderedElementsAre(0, 1, 2));
  EXPECT_FALSE(server.due());
  EXPECT_THAT(read(server), Pointwise(Near(), moved(initial, -1)));
}

TEST_F(MergingServerTest, AMergeIsMadeWhenItIsDue) {
  ParameterServer server(model_, chunks_, *device_, merging(3, 1, 1e-3));
  const std::vector<float> initial = read(server);
  EXPECT_THAT(server.handle(1, push_of(1, 0, 1, 1)), IsEmpty());
  EXPECT_THAT(server.handle(0, push_of(0, 0, 3, 1)), IsEmpty()) << "it still waits for worker 2";
  Replies replies;
  for (const double end = device_->clock().now() + 60;
       replies.empty() && device_->clock().now() < end;)
    replies = server.wake();
  EXPECT_THAT(workers_of(replies), UnorderedElementsAre(0, 1));
  EXPECT_THAT(read(server), Pointwise(Near(), moved(initial, -1)));
}

TEST_F(MergingServerTest, WorkersThatAreDoneAreNotWaitedFor) {
  ParameterServer server(model_, chunks_, *device_, merging(3, 3, 1e6));
  server.handle(0, push_of(0, 0, 1, 1));
  server.handle(2, push_of(2, 0, 1, 1));
  const Replies replies = server.handle(1, about(Kind::finish, 1, chunks_[0], 0));
  EXPECT_THAT(workers_of(replies), UnorderedElementsAre(0, 2));
}

TEST_F(MergingServerTest, WeightsAreNumbersAboveZero) {
  ParameterServer server(model_, chunks_, *device_, merging(2, 1, 0));
  for (const double weight : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THAT(refusal(server, 0, push_of(0, 0, 1, weight)), ::testing::HasSubstr("the weight"));
  EXPECT_THAT(server.handle(0, push_of(0, 0, 1, 1)), SizeIs(1)) << "nothing has changed";
}

/// Two workers could else wait for ever, each for a chunk that has merged the other's push already.
TEST_F(MergingServerTest, AllChunksMergeTheSameWorkers) {
  ParameterServer server(model_, chunks_, *device_, merging(3, 2, 0));
  const auto push = [&](int worker, std::size_t chunk, std::int64_t step = 0) {
    return workers_of(server.handle(worker, push_of(worker, step, 1, 1, chunk)));
  };
  EXPECT_THAT(push(0, 0), IsEmpty());
  EXPECT_THAT(push(1, 0), UnorderedElementsAre(0, 1));
  EXPECT_THAT(push(0, 1), IsEmpty());
  EXPECT_THAT(push(2, 1), IsEmpty()) << "it belongs to the next merge";
  EXPECT_THAT(push(2, 0), IsEmpty());
  EXPECT_THAT(workers_of(server.lose(0)), IsEmpty()) << "worker 1 is still to push chunk 1";
  EXPECT_THAT(push(1, 1), ElementsAre(1));
  EXPECT_THAT(push(1, 0, 1), UnorderedElementsAre(1, 2));
  EXPECT_THAT(push(1, 1, 1), UnorderedElementsAre(1, 2));
}

TEST_F(MergingServerTest, WorkersTellOtherServersWhomAMergeTakes) {
  chunks_ = partition({50, 10}, 2, 128);
  ServerConfig own = merging(3, 2, 0);
  ParameterServer first(model_, chunks_, *device_, own);
  own.server = 1;
  ParameterServer second(model_, chunks_, *device_, own);
  const auto other =
      static_cast<std::size_t>(std::ranges::find(chunks_, 1, &Chunk::server) - chunks_.begin());
  ASSERT_EQ(chunks_.at(0).server, 0);
  for (const int worker : {1, 0})
    EXPECT_THAT(second.handle(worker, push_of(worker, 0, 1, 1, other)), IsEmpty()) << "not decided";
  first.handle(2, push_of(2, 0, 1, 1));
  Replies merged = first.handle(1, push_of(1, 0, 1, 1));
  ASSERT_THAT(merged, SizeIs(4)) << "the workers of the merge, and the values, for two workers";
  Message told = merged[0].message;
  EXPECT_EQ(told.header.kind, Kind::merge);
  EXPECT_EQ(told.header.text, "6");
  told.header.reply = false;
  told.header.worker = 1;
  EXPECT_THAT(second.handle(1, told), IsEmpty()) << "worker 2 has not pushed";
  for (const auto& [step, text] : {std::pair{0, "5"}, {0, "8"}, {0, "x"}, {0, "06"}, {2, "6"}}) {
    Message wrong = told;
    wrong.header.step = step;
    wrong.header.text = text;
    EXPECT_THAT(refusal(second, 1, wrong), ::testing::HasSubstr("merge of worker 1")) << text;
  }
  EXPECT_THAT(refusal(first, 1, told), ::testing::HasSubstr("decides itself"));
  EXPECT_THAT(workers_of(second.handle(2, push_of(2, 0, 1, 1, other))), UnorderedElementsAre(1, 2));
  told.header.worker = 2;
  EXPECT_THAT(second.handle(2, told), IsEmpty()) << "it is known";
}

class Tickets : public MergingServerTest {
 protected:
  /// The steps that the server grants a worker with this speed.
  static std::int64_t granted(ParameterServer& server, int worker, double speed) {
    Message request = testing::message_of(token, Kind::ticket, worker, 0);
    request.header.scalar = speed;
    return static_cast<std::int64_t>(
        server.handle(worker, std::move(request)).at(0).message.header.scalar);
  }
};

TEST_F(Tickets, AreInProportionToSpeedsAndEndWithTheRunsSteps) {
  ServerConfig own = merging(3, 1, 0);
  own.steps = 20;
  own.period = 8;
  own.by_speed = true;
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_EQ(granted(server, 0, 0), 8) << "its speed is not known yet";
  EXPECT_EQ(granted(server, 1, 100), 8);
  EXPECT_EQ(granted(server, 2, 50), 4);
  EXPECT_EQ(granted(server, 0, 400), 8);
  EXPECT_EQ(granted(server, 1, 100), 2);
  EXPECT_EQ(granted(server, 2, 1), 1) << "at least one";
  std::int64_t left = 60 - 8 - 8 - 4 - 8 - 2 - 1;
  for (; left > 0; left -= granted(server, 0, 400)) EXPECT_GE(left, 0);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(granted(server, 0, 400), 0) << "the run is over";
  Message wrong = testing::message_of(token, Kind::ticket, 1, 0);
  wrong.header.scalar = -1;
  EXPECT_THAT(refusal(server, 1, wrong), ::testing::HasSubstr("speed is -1"));
}

/// Workers ask for tickets ahead, and the first may ask twice before another has asked once.
TEST_F(Tickets, OfAShortRunAreKeptForEveryWorker) {
  ServerConfig own = merging(3, 1, 0);
  own.steps = own.period = 6;
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_EQ(granted(server, 2, 0), 6);
  EXPECT_EQ(granted(server, 2, 0), 0);
  EXPECT_EQ(granted(server, 0, 0), 6);
  server.handle(1, testing::message_of(token, Kind::done, 1, 0));
  EXPECT_EQ(granted(server, 0, 0), 6) << "worker 1 is done, and takes none";
}

TEST_F(Tickets, OfAWorkerThatIsLostGoToOthers) {
  ServerConfig own = merging(2, 1, 0);
  own.steps = 10;
  own.period = 5;
  ParameterServer server(model_, chunks_, *device_, own);
  EXPECT_EQ(granted(server, 1, 0), 5);
  server.handle(1, push_of(1, 4, 1, 1));
  EXPECT_EQ(granted(server, 1, 0), 5);
  EXPECT_EQ(granted(server, 0, 0), 5);
  EXPECT_EQ(granted(server, 0, 0), 5);
  EXPECT_EQ(granted(server, 0, 0), 0);
  server.lose(1);
  EXPECT_EQ(granted(server, 0, 0), 5) << "those that worker 1 did not push";
  EXPECT_EQ(granted(server, 0, 0), 0);
}

/// Algorithm 3 of Liu et al. 2024 in float64.
struct DelayedNesterovReference {
  std::int64_t delay;
  double lr, beta, c, theta, m = 0, delta = 0;
  std::int64_t t = 0;

  void push(double g) {
    const auto n = static_cast<double>(delay);
    delta += g;
    if ((t + 1) % delay == 0) {
      m = beta * m + delta / n;
      theta -= lr * ((1 - c * n + c) * beta * m + g / n);
      delta = 0;
    } else {
      theta -= lr * (c * beta * m + g / n);
    }
    ++t;
  }
};

TEST(DelayedNesterov, IsAlgorithmThreeOfThePaper) {
  const auto device = make_cpu_device(1);
  for (const std::int64_t delay : {1, 3, 4})
    for (const double c : {0.0, 0.2}) {
      const Tensor theta = device->tensor({1}, MemoryKind::parameter);
      const Tensor g = device->tensor({1}, MemoryKind::gradient);
      device->kernels().fill({.out = theta, .value = 1});
      const AsyncDilocoOptions options{.outer = {.outer_lr = 0.7, .outer_momentum = 0.9},
                                       .momentum_delay = delay,
                                       .momentum_activation = c};
      const auto optimizer = make_delayed_nesterov(options, 2, *device, theta);
      DelayedNesterovReference reference{delay, 0.7, 0.9, c, 1};
      for (std::int64_t t = 0; t < 17; ++t) {
        const double value = std::sin(0.7 * static_cast<double>(t) + 0.3);
        device->kernels().fill({.out = g, .value = static_cast<float>(value)});
        optimizer->update({0, theta, g}, {.step = t});
        reference.push(value);
        EXPECT_NEAR(theta.data<float>()[0], reference.theta, 1e-5) << delay << " " << c << " " << t;
      }
    }
}

}  // namespace
}  // namespace ringside::ps
