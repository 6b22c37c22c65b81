// Messages from a device whose memory the host does not share.
#include <gtest/gtest.h>

#include <thread>

#include "core/base/error.h"
#include "ps/transport/zmq/channels.h"
#include "tests/ps/frames.h"
#include "tests/ps/host.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::counting;
using testing::same;
using testing::StagedDevice;

using testing::patience_s;
using testing::run;
/// How long a test receives when it expects no message.
constexpr double moment_s = 0.02;

Message about(Kind kind, std::int64_t step, std::vector<Tensor> frames = {}) {
  Message message;
  message.header = {.token = run.token, .kind = kind, .worker = 0, .step = step};
  message.frames = std::move(frames);
  return message;
}

/// Servers, and a worker that has another device than they. If `inside` is true, all of them share
/// one zmq_context; otherwise the worker has a zmq_context of its own.
struct Ends {
  Ends(StagedDevice& worker_device, StagedDevice& server_device, int servers = 1,
       bool inside = false)
      : timeline(worker_device) {
    options.timeout_s = patience_s;
    auto zmq_context = std::make_shared<ZmqContext>();
    std::vector<std::string> endpoints;
    for (int s = 0; s < servers; ++s) {
      ServerEnd end = open_server(server_device, zmq_context, run, 1, s, options);
      endpoints.push_back(inside ? local_endpoint(s) : end.endpoint);
      this->servers.push_back(std::move(end.channel));
    }
    worker = connect_worker(worker_device, inside ? zmq_context : std::make_shared<ZmqContext>(),
                            run, 0, endpoints, options, timeline);
  }
  /// Server 0 receives a message from the worker; before that it cannot send to the worker.
  void meet() {
    worker->send(0, about(Kind::alive, 0));
    EXPECT_TRUE(servers[0]->receive(patience_s));
  }
  std::vector<std::string> exposed() const {
    std::vector<std::string> names;
    for (const Slice& slice : timeline.slices(0))
      if (slice.activity == "exposed") names.push_back(slice.name);
    return names;
  }

  TransportOptions options;
  Timeline timeline;  // the worker's
  std::vector<std::unique_ptr<Channel>> servers;
  std::unique_ptr<Channel> worker;
};

std::vector<std::int64_t> steps_received(Channel& channel, std::size_t count) {
  std::vector<std::int64_t> steps;
  while (steps.size() < count) {
    const auto received = channel.receive(patience_s);
    if (!received) break;
    steps.push_back(received->message.header.step);
  }
  return steps;
}

/// Receives the messages of steps 1 to high_water_mark at `to`. ZeroMQ need not take all of them at
/// once; the calls of from.receive() hand it those that are left.
void receive_the_rest(Channel& from, Channel& to) {
  constexpr int first = high_water_mark * 3 / 4;
  EXPECT_FALSE(from.receive(moment_s));
  EXPECT_EQ(steps_received(to, first).back(), first);
  EXPECT_FALSE(from.receive(moment_s));
  EXPECT_EQ(steps_received(to, high_water_mark - first).back(), high_water_mark);
}

class StagedTest : public ::testing::Test {
 protected:
  Message push(std::int64_t step) {
    return about(Kind::push, step, {counting(device_, {100}, DType::f32, static_cast<int>(step))});
  }

  StagedDevice device_{0};         // its copies arrive when the test says so
  StagedDevice server_device_{1};  // its copies arrive at once
};

TEST_F(StagedTest, AMessageGoesWhenItsCopiesAreThereAndNothingBlocks) {
  Ends ends(device_, server_device_);
  const Tensor first = counting(device_, {100}), second = counting(device_, {33}, DType::bf16, 5);
  ends.worker->send(0, about(Kind::push, 0, {first, second}));
  EXPECT_EQ(device_.copies_out(), 2u) << "they begin at once";
  EXPECT_TRUE(ends.worker->try_send(0, about(Kind::done, 1)));
  EXPECT_FALSE(ends.worker->receive(0));
  EXPECT_FALSE(ends.servers[0]->receive(moment_s));
  device_.finish(0);
  EXPECT_FALSE(ends.worker->receive(0));
  EXPECT_FALSE(ends.servers[0]->receive(moment_s)) << "one copy of two is not the message";
  device_.finish(1);
  EXPECT_FALSE(ends.worker->receive(0));
  const auto received = ends.servers[0]->receive(patience_s);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->message.frames.size(), 2u);
  EXPECT_TRUE(same(server_device_, received->message.frames[0], device_, first));
  EXPECT_TRUE(same(server_device_, received->message.frames[1], device_, second));
  EXPECT_EQ(server_device_.copies_in(), 2);
  EXPECT_EQ(steps_received(*ends.servers[0], 1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(device_.waits(), 0);
}

TEST_F(StagedTest, MessagesToOnePeerKeepTheirOrder) {
  Ends ends(device_, server_device_);
  ends.worker->send(0, push(0));
  ends.worker->send(0, about(Kind::sum, 1));
  ends.worker->send(0, push(2));
  device_.finish(1);
  EXPECT_FALSE(ends.worker->receive(0));
  EXPECT_FALSE(ends.servers[0]->receive(moment_s));
  device_.finish(0);
  ends.worker->send(0, about(Kind::sum, 3));
  EXPECT_EQ(steps_received(*ends.servers[0], 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST_F(StagedTest, NoPeerWaitsForAnothersCopies) {
  Ends ends(device_, server_device_, 2);
  ends.worker->send(0, push(0));
  ends.worker->send(1, push(1));
  device_.finish(1);
  EXPECT_FALSE(ends.worker->receive(0));
  EXPECT_EQ(steps_received(*ends.servers[1], 1), (std::vector<std::int64_t>{1}));
  device_.finish(0);
}

TEST_F(StagedTest, WhoWaitsForAnAnswerSendsWhatBecomesReady) {
  StagedDevice slow(5);
  Ends ends(slow, server_device_);
  std::jthread server([&] {
    const auto asked = ends.servers[0]->receive(patience_s);
    ASSERT_TRUE(asked);
    ends.servers[0]->send(0, {reply_to(asked->message.header), {asked->message.frames.at(0)}});
    EXPECT_FALSE(ends.servers[0]->receive(0));
  });
  const Tensor frame = counting(slow, {1 << 12});
  ends.worker->send(0, about(Kind::push_pull, 0, {frame}));
  const auto answer = ends.worker->receive(patience_s);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(same(slow, answer->message.frames.at(0), slow, frame));
  EXPECT_EQ(slow.waits(), 0);
}

TEST_F(StagedTest, AServersRepliesWaitLikewise) {
  Ends ends(server_device_, device_);
  ends.meet();
  ends.servers[0]->send(0, push(0));
  EXPECT_TRUE(ends.servers[0]->try_send(0, about(Kind::error, 1)));
  EXPECT_FALSE(ends.worker->receive(moment_s));
  device_.finish(0);
  EXPECT_FALSE(ends.servers[0]->receive(0));
  EXPECT_EQ(steps_received(*ends.worker, 2), (std::vector<std::int64_t>{0, 1}));
}

TEST_F(StagedTest, BytesCountWhenTheyAreHandedOver) {
  Ends ends(device_, server_device_);
  ends.worker->send(0, push(0));
  const std::int64_t sent = ends.worker->traffic().sent;
  EXPECT_GE(sent, 400);
  device_.finish(0);
  EXPECT_FALSE(ends.worker->receive(0));
  EXPECT_TRUE(ends.servers[0]->receive(patience_s));
  EXPECT_EQ(ends.worker->traffic().sent, sent);
  EXPECT_EQ(ends.servers[0]->traffic().received, sent);
}

TEST_F(StagedTest, TooManyCopiesUnderWayBlockTheSenderAndAreExposed) {
  Ends ends(device_, server_device_);
  ends.timeline.begin_step();
  for (int i = 0; i < high_water_mark; ++i) ends.worker->send(0, push(i));
  EXPECT_EQ(device_.waits(), 0);
  EXPECT_FALSE(ends.worker->try_send(0, about(Kind::alive, -1))) << "there is no room";
  ends.worker->send(0, push(high_water_mark));
  EXPECT_EQ(device_.waits(), 1) << "for the oldest";
  ends.timeline.end_step();
  EXPECT_EQ(ends.exposed(), (std::vector<std::string>{"send push to server 0"}));
  EXPECT_EQ(steps_received(*ends.servers[0], 1), (std::vector<std::int64_t>{0}));
  EXPECT_FALSE(ends.servers[0]->receive(moment_s)) << "no other message has arrived yet";
  for (std::size_t i = 0; i < device_.copies_out(); ++i) device_.finish(i);
  receive_the_rest(*ends.worker, *ends.servers[0]);
}

TEST_F(StagedTest, TooManyRepliesBlockTheServer) {
  Ends ends(server_device_, device_);
  ends.meet();
  for (int i = 0; i <= high_water_mark; ++i) ends.servers[0]->send(0, push(i));
  EXPECT_EQ(device_.waits(), 1);
  EXPECT_EQ(steps_received(*ends.worker, 1), (std::vector<std::int64_t>{0}));
  for (std::size_t i = 0; i < device_.copies_out(); ++i) device_.finish(i);
  receive_the_rest(*ends.servers[0], *ends.worker);
}

TEST_F(StagedTest, WhatWaitsLeavesBeforeAChannelEnds) {
  StagedDevice slow(4);
  Ends ends(slow, server_device_);
  ends.worker->send(0, about(Kind::push, 0, {counting(slow, {1000})}));
  EXPECT_TRUE(ends.worker->try_send(0, about(Kind::done, 1)));
  EXPECT_FALSE(ends.servers[0]->receive(moment_s));
  ends.worker.reset();
  EXPECT_EQ(steps_received(*ends.servers[0], 2), (std::vector<std::int64_t>{0, 1}));
  ends.servers.clear();
  EXPECT_EQ(slow.host_buffers(), 0);
}

TEST_F(StagedTest, CopiesThatNeverComeDoNotKeepAChannelForEver) {
  Ends ends(device_, server_device_);
  const Tensor frame = counting(device_, {1000});
  ends.worker->send(0, about(Kind::push, 0, {frame}));
  ends.worker.reset();
  EXPECT_EQ(frame.buffer().use_count(), 1);
  EXPECT_EQ(device_.host_buffers(), 0);
}

TEST_F(StagedTest, AWorkerThatWentIsToldOnceByTheNextCall) {
  Ends ends(server_device_, device_);
  ends.meet();
  ends.servers[0]->send(0, push(0));
  ends.servers[0]->send(0, push(1));
  ends.worker.reset();
  device_.finish(0);
  std::string error;
  const Clock& clock = device_.clock();
  for (const double end = clock.now() + patience_s; error.empty() && clock.now() < end;) {
    try {
      ends.servers[0]->receive(moment_s);
      ends.servers[0]->send(0, push(2));
      device_.finish(device_.copies_out() - 1);
    } catch (const Error& gone) {
      error = gone.what();
    }
  }
  EXPECT_EQ(error, "server 0: worker 0 has ended before it received the reply to its push");
  EXPECT_FALSE(ends.servers[0]->receive(0)) << "without another error";
}

TEST_F(StagedTest, AWorkerThatWentDisturbsNoMessageToAnother) {
  const ps::Run two{.token = run.token, .secret = run.secret, .outside = 2};
  const TransportOptions options{.timeout_s = patience_s};
  ServerEnd server = open_server(device_, std::make_shared<ZmqContext>(), two, 2, 0, options);
  Timeline timeline(server_device_);
  std::vector<std::unique_ptr<Channel>> workers;
  for (int w = 0; w < 2; ++w) {
    workers.push_back(connect_worker(server_device_, std::make_shared<ZmqContext>(), two, w,
                                     {server.endpoint}, options, timeline));
    workers.back()->send(0, about(Kind::alive, 0));
    EXPECT_TRUE(server.channel->receive(patience_s));
  }
  workers[1].reset();
  std::optional<int> gone;
  std::int64_t step = 0;
  const Clock& clock = device_.clock();
  for (const double end = clock.now() + patience_s; !gone && clock.now() < end; ++step) {
    try {
      server.channel->send(1, push(step));
    } catch (const PeerGone& error) {
      gone = error.peer;
    }
    if (device_.copies_out() > 0) device_.finish(device_.copies_out() - 1);
    server.channel->send(0, push(step));
    device_.finish(device_.copies_out() - 1);
    try {
      server.channel->receive(moment_s);
    } catch (const PeerGone& error) {
      gone = error.peer;
    }
  }
  EXPECT_EQ(gone, 1);
  EXPECT_FALSE(server.channel->receive(0));
  const auto steps = steps_received(*workers[0], static_cast<std::size_t>(step));
  EXPECT_EQ(std::ssize(steps), step) << "none was lost";
}

TEST_F(StagedTest, WithinAProcessNothingIsCopied) {
  Ends ends(device_, device_, 1, true);
  const Tensor frame = counting(device_, {64});
  ends.worker->send(0, about(Kind::push_pull, 0, {frame}));
  const auto asked = ends.servers[0]->receive(patience_s);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->message.frames.at(0).buffer(), frame.buffer());
  ends.servers[0]->send(0, {reply_to(asked->message.header), {frame}});
  const auto answer = ends.worker->receive(patience_s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message.frames.at(0).buffer(), frame.buffer());
  EXPECT_EQ(device_.copies_out(), 0u);
  EXPECT_EQ(device_.copies_in(), 0);
}

}  // namespace
}  // namespace ringside::ps
