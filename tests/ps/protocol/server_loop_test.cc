#include "ps/protocol/server_loop.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/parameter_server.h"
#include "tests/ps/messages.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

constexpr std::uint64_t service_token = 5;

/// A channel to two workers, which greet the server and send the messages of the test.
class Script : public Channel {
 public:
  explicit Script(std::string greeting) : greeting_(std::move(greeting)) {}
  void greets(int worker, std::string greeting) {
    Message hello = testing::message_of(service_token, Kind::hello, worker, 0);
    hello.header.text = std::move(greeting);
    lines_.push_back({worker, std::move(hello)});
    greeted_.insert(worker);
  }
  /// A message that is signed by another sender.
  void relays(int worker, Message message) { lines_.push_back({worker, std::move(message)}); }
  void says(int worker, Kind kind, std::int64_t step = 0, double scalar = 0) {
    if (!greeted_.contains(worker)) greets(worker, greeting_);
    says_at_once(worker, kind, step, scalar);
  }
  void says_at_once(int worker, Kind kind, std::int64_t step = 0, double scalar = 0) {
    Message message = testing::message_of(service_token, kind, worker, step);
    message.header.scalar = scalar;
    message.header.text = "its reason";
    lines_.push_back({worker, std::move(message)});
  }
  /// The channel finds that the worker is gone when it is to send what was staged.
  void ends(int worker) {
    lines_.push_back({worker, testing::message_of(service_token, Kind::error, 0, 0)});
  }
  /// Makes `worker` say again and again that it is alive, once all other messages have been
  /// received.
  void keeps_saying(int worker) { chatty_ = worker; }

  void send(int peer, Message message) override {
    traffic_.sent += 10;
    replies.push_back({peer, std::move(message)});
  }
  bool try_send(int peer, Message message) override {
    send(peer, std::move(message));
    return true;
  }
  std::optional<Received> receive(double) override {
    if (lines_.empty()) {
      if (!chatty_) return {};
      says(*chatty_, Kind::alive);
    }
    Received next = std::move(lines_.front());
    lines_.pop_front();
    if (next.message.header.kind == Kind::error) throw PeerGone(next.peer, "worker 1 is gone");
    traffic_.received += 1;
    return next;
  }
  Traffic traffic() const override { return traffic_; }

  std::vector<Reply> replies;

 private:
  std::string greeting_;
  std::set<int> greeted_;
  std::deque<Received> lines_;
  std::optional<int> chatty_;
  Traffic traffic_;
};

struct PsLikeOptions {
  std::int64_t servers = 2, port = 0;
};
Fields fields_of(PsLikeOptions& options) {
  return {{"port", &options.port, "port"}, {"servers", &options.servers, "servers"}};
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    plan_.world = 2;
    plan_.servers = 1;
    plan_.train.steps = 3;
    plan_.train.warmup = 1;
    plan_.train.timeout_s = 0.05;
    plan_.ranks = {{.rank = 0, .worker = -1, .server = 0}};
    script_.emplace(greeting_of(plan_));
  }
  RankRecord serve_script() {
    ParameterServer server({}, {}, *device_,
                           {.workers = 2,
                            .token = service_token,
                            .rules = {.consistency = consistency_},
                            .steps = plan_.train.steps});
    RankContext context{plan_, 0, *device_, store_, timeline_};
    context.program = program_;
    return serve(context, *script_, server, 123);
  }
  std::string error() {
    return testing::complaint([&] { serve_script(); });
  }

  RunPlan plan_;
  std::string program_;
  Consistency consistency_ = Consistency::bsp;
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  MemoryStore store_;
  Timeline timeline_{*device_};
  std::optional<Script> script_;
};

TEST_F(ServiceTest, EndsWhenEveryWorkerIsDone) {
  script_->says(0, Kind::sum, 0, 1.0);
  script_->says(1, Kind::sum, 0, 2.0);
  script_->says(1, Kind::done);
  script_->says(0, Kind::done);
  EXPECT_EQ(serve_script().parameters, 123);
  ASSERT_EQ(script_->replies.size(), 2u);
  EXPECT_EQ(script_->replies[1].message.header.kind, Kind::sum);
  EXPECT_TRUE(script_->replies[1].message.frames.empty()) << "sums of nothing";
}

TEST_F(ServiceTest, CountsTheBytesOfMeasuredStepsAlone) {
  for (std::int64_t step = 0; step <= 3; ++step)
    script_->says(0, Kind::push_pull, step);  // refused
  script_->says(0, Kind::alive);
  script_->says(0, Kind::done);
  script_->says(1, Kind::done);
  const RankRecord record = serve_script();
  EXPECT_EQ(record.bytes_received_per_step, 1) << "steps 1 and 2 of 0 to 3";
  EXPECT_EQ(record.bytes_sent_per_step, 0) << "errors are about no step";
}

TEST_F(ServiceTest, CountsAPullWithTheStepWhoseUpdateItsValuesHaveSeen) {
  script_->says(0, Kind::pull, 2);  // values after updates 0 and 1, so it counts for step 1
  script_->says(0, Kind::pull, 3);
  script_->says(0, Kind::done);
  script_->says(1, Kind::done);
  EXPECT_EQ(serve_script().bytes_received_per_step, 1) << "of steps 1 and 2";
}

TEST_F(ServiceTest, CountsNoPullOfWorkersThatTrainOnTheRepliesToTheirPushes) {
  plan_.train.warmup = 0;
  plan_.promise = Promise::replayed;
  consistency_ = Consistency::easgd;
  script_.emplace(greeting_of(plan_));
  script_->says(0, Kind::alive);
  for (int step = 0; step < 3; ++step) script_->says(0, Kind::push_pull, step);  // refused
  script_->says(0, Kind::pull, 0);
  script_->says(0, Kind::done);
  script_->says(1, Kind::done);
  EXPECT_EQ(serve_script().bytes_received_per_step, 1);
}

TEST_F(ServiceTest, NamesAWorkerThatNeverComes) {
  script_->keeps_saying(0);
  EXPECT_EQ(
      error(),
      "worker 1 did not connect within 0.05 s; raise train.timeout_s if its start really takes "
      "so long");
  ASSERT_EQ(script_->replies.size(), 1u) << "who came is told";
  EXPECT_EQ(script_->replies[0].worker, 0);
  EXPECT_EQ(
      script_->replies[0].message.header.text,
      "worker 1 did not connect within 0.05 s; raise train.timeout_s if its start really takes "
      "so long");
}

TEST_F(ServiceTest, NamesAWorkerThatFallsSilentAndWhatIsAwaited) {
  script_->says(1, Kind::alive);
  script_->keeps_saying(0);
  EXPECT_EQ(error(),
            "worker 1 has been silent for 0.05 s; the server waits for the worker's part of step "
            "3; raise train.timeout_s if the worker really computes for that long");
}

TEST_F(ServiceTest, NamesAWorkerThatGivesUpAndTellsTheOthers) {
  script_->says(0, Kind::alive);
  script_->says(1, Kind::failed);
  EXPECT_EQ(error(), "worker 1 gave up: its reason");
  ASSERT_EQ(script_->replies.size(), 2u);
  EXPECT_EQ(script_->replies[0].message.header.kind, Kind::error);
}

TEST_F(ServiceTest, DoesNotWaitForAWorkerThatIsDone) {
  script_->says(1, Kind::done);
  // These messages are refused, and they do not prolong the wait for worker 0.
  script_->keeps_saying(1);
  EXPECT_EQ(
      error(),
      "worker 0 did not connect within 0.05 s; raise train.timeout_s if its start really takes "
      "so long");
}

TEST_F(ServiceTest, WhatComesBeforeAGreetingIsRefused) {
  script_->says_at_once(0, Kind::sum, 0, 1.0);
  script_->says_at_once(0, Kind::done);
  script_->says(0, Kind::done);
  script_->says(1, Kind::done);
  serve_script();
  ASSERT_EQ(script_->replies.size(), 2u);
  for (const Reply& reply : script_->replies) {
    EXPECT_EQ(reply.message.header.kind, Kind::error);
    EXPECT_EQ(reply.message.header.text, "worker 0 has not greeted this server");
  }
}

TEST_F(ServiceTest, AGreetingCountsOnceAndForItsSenderAlone) {
  script_->says(0, Kind::alive);
  script_->greets(0, greeting_of(plan_));
  Message other = testing::message_of(service_token, Kind::hello, 0, 0);
  other.header.text = greeting_of(plan_);
  script_->relays(1, other);
  script_->says(0, Kind::done);
  script_->says(1, Kind::done);
  serve_script();
  ASSERT_EQ(script_->replies.size(), 2u);
  EXPECT_EQ(script_->replies[0].message.header.text, "worker 0 has greeted this server before");
  EXPECT_EQ(script_->replies[1].message.header.text, "worker 1 greeted in the name of worker 0");
}

TEST_F(ServiceTest, AWorkerOfAnotherPlanEndsTheRunAndBothValuesAreSaid) {
  RunPlan other = plan_;
  other.optimizer.lr *= 2;
  const std::string its = greeting_of(other), own = greeting_of(plan_);
  EXPECT_NE(its, own);
  script_->says(0, Kind::alive);
  script_->greets(1, its);
  const std::string text = error();
  EXPECT_EQ(text, "server 0 refuses worker 1: the worker has " + its + ", but the server has " +
                      own + "; start all ranks with the same program, model and plan");
  ASSERT_EQ(script_->replies.size(), 2u);
  for (const Reply& reply : script_->replies) EXPECT_EQ(reply.message.header.text, text);
}

TEST_F(ServiceTest, GoesOnWithoutAnExpendableWorkerThatTheChannelMisses) {
  plan_.expendable = 1;
  consistency_ = Consistency::asp;
  script_.emplace(greeting_of(plan_));
  script_->says(0, Kind::alive);
  script_->says(1, Kind::alive);
  script_->ends(1);
  script_->says(0, Kind::done);
  store_.set(lost_key(1), "");
  EXPECT_EQ(error(), "nothing");
}

TEST_F(ServiceTest, EndsWithTheNameOfAWorkerThatTheChannelMisses) {
  script_->says(0, Kind::alive);
  script_->says(1, Kind::alive);
  script_->ends(1);
  EXPECT_EQ(error(), "worker 1 is gone");
}

TEST_F(ServiceTest, AWorkerOfAnotherBuildEndsTheRunAndBothCommitsAreSaid) {
  program_ = "1111";
  script_.emplace(greeting_of(plan_, "1111"));
  script_->says(0, Kind::alive);
  script_->greets(1, greeting_of(plan_, "2222-dirty"));
  const std::string text = error();
  EXPECT_NE(text.find("the worker has protocol"), std::string::npos) << text;
  EXPECT_NE(text.find("commit 2222-dirty, configuration"), std::string::npos) << text;
  EXPECT_NE(text.find("commit 1111, configuration"), std::string::npos) << text;
}

TEST(Greeting, IsOfWhatRanksMustAgreeOnAlone) {
  RunPlan plan;
  plan.options = PsLikeOptions{};
  const std::string greeting = greeting_of(plan);
  EXPECT_EQ(greeting.find("protocol "), 0u);
  const auto same = [&](const auto& change) {
    RunPlan changed = plan;
    change(changed);
    return greeting_of(changed) == greeting;
  };
  EXPECT_FALSE(same([](RunPlan& p) { p.model.width += 1; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.train.global_batch += 1; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.train.seed += 1; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.optimizer.lr *= 2; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.world += 1; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.servers += 1; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.scheme = "other"; }));
  EXPECT_FALSE(same([](RunPlan& p) { p.options = PsLikeOptions{.servers = 3}; }));
  EXPECT_TRUE(same([](RunPlan& p) { p.options = PsLikeOptions{.port = 80}; }));
  EXPECT_TRUE(same([](RunPlan& p) { p.train.timeout_s += 1; }));
  EXPECT_TRUE(same([](RunPlan& p) { p.data.path = {"elsewhere"}; }));
  EXPECT_TRUE(same([](RunPlan& p) { p.id = "again"; }));
}

}  // namespace
}  // namespace ringside::ps
