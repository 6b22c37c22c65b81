// Channels of a worker's seat that several processes have, one after the other.
#include <gtest/gtest.h>

#include <deque>

#include "core/base/error.h"
#include "ps/protocol/rendezvous.h"
#include "ps/transport/shm/transport.h"
#include "ps/transport/zmq/transport.h"
#include "tests/ps/host.h"
#include "tests/ps/run.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

/// A server, and two workers, each in one thread.
class SeatsOfChannels : public ::testing::TestWithParam<TransportKind> {
 protected:
  SeatsOfChannels() {
    options_.transport = GetParam();
    server_ = transport_->listen(make_rank(2, 0).context, options_);
    for (int worker = 0; worker < 2; ++worker) workers_[worker] = connect(worker, 0);
  }

  struct Rank {
    Rank(SeatsOfChannels& test, int rank, std::int64_t process)
        : plan(testing::tiny_plan(2, 1, false, 1)), context{plan,        rank,     *device,
                                                            test.store_, timeline, &shared} {
      plan.generation = process;
    }
    RunPlan plan;
    std::unique_ptr<Device> device = make_cpu_device(1);
    Timeline timeline{*device};
    Shared shared;
    RankContext context;
  };
  Rank& make_rank(int rank, std::int64_t process) {
    return ranks_.emplace_back(*this, rank, process);
  }
  std::unique_ptr<Channel> connect(int worker, std::int64_t process) {
    return transport_->connect(make_rank(worker, process).context, options_).channel;
  }

  Message message(Kind kind, int worker, std::int64_t step) const {
    return testing::message_of(server_.token, kind, worker, step);
  }
  /// The next message at the server.
  Received next() {
    auto received = server_.channel->receive(testing::patience_s);
    if (!received) throw Error("no message came");
    return std::move(*received);
  }
  /// The process in the seat of worker 1 ends, and another one comes.
  std::string change_process(std::int64_t process) {
    workers_[1].reset();
    std::string address = server_.channel->admit_again(1, process);
    store_.set(endpoint_key(0, 1, process), address);
    workers_[1] = connect(1, process);
    return address;
  }
  void expect_answered(int worker, std::int64_t step) {
    workers_[worker]->send(0, message(Kind::peek, worker, step));
    const Received received = next();
    EXPECT_EQ(received.peer, worker);
    EXPECT_EQ(received.message.header.step, step);
    server_.channel->send(worker, {reply_to(received.message.header), {}});
    const auto reply = workers_[worker]->receive(testing::patience_s);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->message.header.step, step);
  }

  MemoryStore store_;
  TransportOptions options_{.max_frame_bytes = 1 << 20, .timeout_s = testing::patience_s};
  std::unique_ptr<Transport> transport_ =
      GetParam() == TransportKind::shm ? shm_transport() : zmq_transport();
  std::deque<Rank> ranks_;
  Connection server_;
  std::unique_ptr<Channel> workers_[2];
};

INSTANTIATE_TEST_SUITE_P(Transports, SeatsOfChannels,
                         ::testing::Values(TransportKind::shm, TransportKind::ipc,
                                           TransportKind::tcp),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(SeatsOfChannels, NoMessageOfAFormerProcessIsTakenForOneOfTheNext) {
  for (const int worker : {0, 1}) {
    workers_[worker]->send(0, message(Kind::hello, worker, 0));
    EXPECT_EQ(next().peer, worker);
  }
  const std::int64_t times = 3;
  for (std::int64_t process = 1; process <= times; ++process) {
    // The server never receives these.
    for (std::int64_t step = 100; step < 104; ++step)
      workers_[1]->send(0, message(Kind::peek, 1, step));
    workers_[1]->send(0, message(Kind::hello, 1, 0));
    change_process(process);
    workers_[1]->send(0, message(Kind::hello, 1, process));
    const Received first = next();
    EXPECT_EQ(first.peer, 1);
    EXPECT_EQ(first.message.header.kind, Kind::hello) << first.message.header.step;
    EXPECT_EQ(first.message.header.step, process);
    expect_answered(1, 7 + process);
    expect_answered(0, process);
  }
}

/// It ends before the server has received anything of it.
TEST_P(SeatsOfChannels, AProcessMayEndBeforeItIsHeard) {
  workers_[0]->send(0, message(Kind::hello, 0, 0));
  EXPECT_EQ(next().peer, 0);
  workers_[1]->send(0, message(Kind::hello, 1, 0));
  workers_[1]->send(0, message(Kind::peek, 1, 100));
  change_process(1);
  change_process(2);
  workers_[1]->send(0, message(Kind::hello, 1, 2));
  EXPECT_EQ(next().message.header.step, 2);
  expect_answered(1, 5);
}

TEST_P(SeatsOfChannels, NobodyReachesAWorkerThatHasNotCome) {
  workers_[1]->send(0, message(Kind::hello, 1, 0));
  EXPECT_EQ(next().peer, 1);
  workers_[1].reset();
  server_.channel->admit_again(1, 1);
  EXPECT_FALSE(server_.channel->try_send(1, message(Kind::alive, 1, 0)));
  EXPECT_NE(testing::complaint([&] {
              server_.channel->send(1, message(Kind::alive, 1, 0));
            }).find("never connected"),
            std::string::npos);
}

/// What a former process sent may be in use for long.
TEST_P(SeatsOfChannels, FramesOfAFormerProcessReleaseNoneOfTheNext) {
  const auto push = [&](std::int64_t step, float value) {
    Device& device = *ranks_.back().device;
    Message out = message(Kind::push, 1, step);
    out.frames.push_back(device.tensor({64}, MemoryKind::communication));
    device.kernels().fill({.out = out.frames[0], .value = value});
    return out;
  };
  workers_[1]->send(0, message(Kind::hello, 1, 0));
  next();
  workers_[1]->send(0, push(0, 1));
  std::optional<Received> former = next();
  EXPECT_EQ(former->message.frames.at(0).data<float>()[63], 1);
  change_process(1);
  workers_[1]->send(0, message(Kind::hello, 1, 1));
  EXPECT_EQ(next().message.header.kind, Kind::hello);
  workers_[1]->send(0, push(1, 2));
  const Received present = next();
  Device& device = *ranks_.back().device;
  const std::int64_t held = device.ledger().current()[MemoryKind::communication];
  former.reset();
  EXPECT_FALSE(workers_[1]->receive(0));
  if (GetParam() == TransportKind::shm) {
    EXPECT_EQ(device.ledger().current()[MemoryKind::communication], held);
  }
  EXPECT_EQ(present.message.frames.at(0).data<float>()[63], 2);
}

}  // namespace
}  // namespace ringside::ps
