// Wrong messages of workers, from a worker's channel to a server's parameters.
#include <gtest/gtest.h>

#include <thread>

#include "core/comm/store.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/server_loop.h"
#include "ps/transport/zmq/channels.h"
#include "tests/ps/host.h"
#include "tests/ps/server_fixture.h"

namespace ringside::ps {
namespace {

using testing::patience_s;

/// A server of one worker, served by a thread, and the worker's end of the channel.
class RefusalsTest : public ServerTest {
 protected:
  RefusalsTest() {
    plan_.world = 1;
    plan_.servers = 1;
    plan_.train.steps = 10;
    plan_.train.timeout_s = patience_s;
    plan_.ranks = {{.rank = 0, .worker = 0, .server = 0}};
    ServerEnd end = open_server(*device_, std::make_shared<ZmqContext>(), run_, 1, 0, {});
    served_ = std::move(end.channel);
    thread_ = std::jthread([this] {
      serve({plan_, 0, *device_, store_, timeline_}, *served_, server_, 60);
    });
    worker_ = connect_worker(*own_device_, std::make_shared<ZmqContext>(), run_, 0, {end.endpoint},
                             {}, own_timeline_);
  }
  ~RefusalsTest() override { end(); }

  void end() {
    if (!thread_.joinable()) return;
    send(testing::message_of(token, Kind::done, 0, 0));
    thread_.join();
  }
  void send(Message message) {
    sent_headers_ += static_cast<std::int64_t>(encode(message).size());
    worker_->send(0, std::move(message));
  }
  void greet() {
    Message hello = testing::message_of(token, Kind::hello, 0, 0);
    hello.header.text = greeting_of(plan_);
    send(std::move(hello));
  }
  Message answer(Message message) {
    send(std::move(message));
    auto received = worker_->receive(patience_s);
    EXPECT_TRUE(received);
    return received ? std::move(received->message) : Message{};
  }
  void expect_refused(Message message, const char* cause) {
    const Message reply = answer(std::move(message));
    EXPECT_EQ(reply.header.kind, Kind::error);
    EXPECT_NE(reply.header.text.find(cause), std::string::npos) << reply.header.text;
  }

  const ps::Run run_{.token = token, .secret = "only workers know it"};
  RunPlan plan_;
  MemoryStore store_;
  Timeline timeline_{*device_};
  std::unique_ptr<Device> own_device_ = make_cpu_device(1);
  Timeline own_timeline_{*own_device_};
  ParameterServer server_{model_, chunks_, *device_, config(1)};
  std::unique_ptr<Channel> served_, worker_;
  std::int64_t sent_headers_ = 0;  // bytes
  std::jthread thread_;
};

TEST_F(RefusalsTest, NothingIsTakenBeforeAGreeting) {
  expect_refused(push(0, 0, 0), "has not greeted");
  greet();
  EXPECT_EQ(answer(push(0, 0, 0)).header.kind, Kind::push_pull);
}

TEST_F(RefusalsTest, APushIsAppliedOnce) {
  greet();
  const auto values = values_of(answer(push(0, 0, 0)).frames.at(0));
  expect_refused(push(0, 0, 0), "step 0");
  expect_refused(push(0, 0, 2), "step 2");
  EXPECT_EQ(values_of(answer(pull(0, 0, 1)).frames.at(0)), values);
  EXPECT_EQ(values, sequential(1, 1)[0]);
}

TEST_F(RefusalsTest, FramesThatDoNotFitTheirRangeAreRefusedByTheirHeaders) {
  greet();
  Message none = push(0, 0, 0);
  none.header.begin = 1;
  expect_refused(none, "no chunk of 32 elements that begins at element 1");
  Message shorter = push(0, 0, 0);
  shorter.frames[0] = shorter.frames[0].range(0, 31);
  expect_refused(shorter, "one frame of 32 fp32 elements");
  Message other = push(0, 0, 0);
  other.frames[0] = own_device_->tensor({32}, MemoryKind::gradient, DType::bf16);
  expect_refused(other, "one frame of 32 fp32 elements");
  Message two = push(0, 0, 0);
  two.frames.push_back(two.frames[0]);
  expect_refused(two, "has 2 frames");
  const Message right = push(0, 0, 0);
  EXPECT_EQ(answer(right).header.kind, Kind::push_pull);
  end();
  EXPECT_EQ(served_->traffic().received, sent_headers_ + right.frames[0].bytes())
      << "another frame was taken";
}

}  // namespace
}  // namespace ringside::ps
