// Both ends of a channel over ZeroMQ, on a device whose memory the host shares and on a device
// whose memory the host does not share.
#include "ps/transport/zmq/channels.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/ps/frames.h"
#include "tests/ps/host.h"
#include "tests/support/staged_device.h"

namespace ringside::ps {
namespace {

using testing::counting;
using testing::same;

using testing::patience_s;
using testing::run;

/// The CPU, or a device whose copies to the host arrive when the channel first asks for them. The
/// channel asks during send(). These tests often do not call the channel again after send(), so it
/// might never ask a second time.
std::unique_ptr<Device> make_device(bool staged) {
  if (!staged) return make_cpu_device(1);
  return std::make_unique<testing::StagedDevice>(1);
}

/// Where a test runs. Ends that share a zmq_context reach each other within the process (inproc).
struct Place {
  std::optional<TransportKind> transport;  // none: the ends share a zmq_context
  bool staged = false;
};

/// A server and a worker of the same process.
struct ZmqPair {
  explicit ZmqPair(const Place& place, const Run& worker_run = run, int worker = 1,
                   double timeout_s = patience_s)
      : server_device(make_device(place.staged)),
        worker_device(make_device(place.staged)),
        timeline(std::make_unique<Timeline>(*worker_device)) {
    const auto zmq_context = std::make_shared<ZmqContext>();
    const bool inside = !place.transport;
    TransportOptions options;
    if (place.transport) options.transport = *place.transport;
    options.timeout_s = timeout_s;
    ServerEnd end = open_server(*server_device, zmq_context, run, 2, 0, options);
    server = std::move(end.channel);
    endpoint = end.endpoint;
    client = connect_worker(*worker_device, inside ? zmq_context : std::make_shared<ZmqContext>(),
                            worker_run, worker, {inside ? local_endpoint(0) : endpoint}, options,
                            *timeline);
  }

  std::unique_ptr<Device> server_device, worker_device;
  std::unique_ptr<Timeline> timeline;  // the worker's
  std::unique_ptr<Channel> server, client;
  std::string endpoint;
};

Message question(std::vector<Tensor> frames = {}) {
  Message message;
  message.header = {.token = run.token, .kind = Kind::push_pull, .worker = 1, .step = 8};
  message.frames = std::move(frames);
  return message;
}

class ZmqChannelTest : public ::testing::TestWithParam<Place> {
 protected:
  static bool inside() { return !GetParam().transport; }
};
INSTANTIATE_TEST_SUITE_P(Transports, ZmqChannelTest,
                         ::testing::Values(Place{}, Place{TransportKind::ipc},
                                           Place{TransportKind::tcp}, Place{{}, true},
                                           Place{TransportKind::ipc, true},
                                           Place{TransportKind::tcp, true}),
                         [](const auto& info) {
                           const auto& transport = info.param.transport;
                           return std::string(transport ? name_of(*transport) : "inproc") +
                                  (info.param.staged ? "Staged" : "");
                         });

TEST_P(ZmqChannelTest, MovesHeadersAndFramesBothWays) {
  ZmqPair pair(GetParam());
  // Some frames fit into ZeroMQ's receive buffer, where they may begin at odd addresses. Others are
  // larger than the buffer.
  const std::vector<Tensor> frames = {counting(*pair.worker_device, {3}, DType::u8),
                                      counting(*pair.worker_device, {5}, DType::i32),
                                      counting(*pair.worker_device, {7}, DType::bf16),
                                      counting(*pair.worker_device, {100, 33}),
                                      counting(*pair.worker_device, {1 << 18}),
                                      counting(*pair.worker_device, {0})};
  for (int round = 0; round < 3; ++round) {
    pair.client->send(0, question(frames));
    const auto asked = pair.server->receive(patience_s);
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->peer, 1);
    EXPECT_EQ(asked->message.header, question().header);
    ASSERT_EQ(asked->message.frames.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      EXPECT_TRUE(
          same(*pair.server_device, asked->message.frames[i], *pair.worker_device, frames[i]))
          << i;
    }
    pair.server->send(1, {reply_to(asked->message.header), {asked->message.frames[4]}});
    const auto answer = pair.client->receive(patience_s);
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->message.header.reply);
    EXPECT_TRUE(
        same(*pair.worker_device, answer->message.frames.at(0), *pair.worker_device, frames[4]));
  }
  EXPECT_FALSE(pair.client->receive(0));
  EXPECT_FALSE(pair.server->receive(0.001));
}

TEST_P(ZmqChannelTest, CountsWhatLeavesTheProcess) {
  ZmqPair pair(GetParam());
  pair.client->send(0, question({counting(*pair.worker_device, {1000})}));
  ASSERT_TRUE(pair.server->receive(patience_s));
  const std::int64_t sent = pair.client->traffic().sent;
  EXPECT_EQ(pair.server->traffic().received, sent);
  EXPECT_EQ(pair.client->traffic().received, 0);
  if (inside()) {
    EXPECT_EQ(sent, 0);
  } else {
    EXPECT_GE(sent, 4000);
    EXPECT_LE(sent, 4200);
  }
}

TEST_P(ZmqChannelTest, ReceivedFramesAreInTheLedgerUntilTheyAreGone) {
  ZmqPair pair(GetParam());
  pair.client->send(0, question({counting(*pair.worker_device, {1 << 16})}));
  auto received = pair.server->receive(patience_s);
  ASSERT_TRUE(received);
  // Within a process the frames are views of the sender's memory, so the receiver allocates none.
  const std::int64_t counted = inside() ? 0 : 4 << 16;
  EXPECT_EQ(pair.server_device->ledger().current()[MemoryKind::communication], counted);
  received.reset();
  EXPECT_EQ(pair.server_device->ledger().current()[MemoryKind::communication], 0);
}

TEST_P(ZmqChannelTest, AServerCannotSendToWhoNeverCame) {
  ZmqPair pair(GetParam());
  try {
    pair.server->send(1, question());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "server 0: worker 1 never connected");
  }
  EXPECT_FALSE(pair.server->try_send(1, question()));
}

TEST_P(ZmqChannelTest, LastWordsToWhoIsGoneDoNotBlock) {
  ZmqPair pair(GetParam());
  EXPECT_TRUE(pair.client->try_send(0, question()));
  ASSERT_TRUE(pair.server->receive(patience_s));
  pair.server.reset();
  for (int i = 0; i < 200; ++i) pair.client->try_send(0, question());
  EXPECT_FALSE(pair.client->try_send(0, question())) << "no more is kept than a few messages";
}

TEST_P(ZmqChannelTest, TimeBlockedInASendIsExposed) {
  ZmqPair pair(GetParam(), run, 1, 0.05);
  const auto exposed = [&] {
    std::vector<std::string> names;
    for (const Slice& slice : pair.timeline->slices(0))
      if (slice.activity == "exposed") names.push_back(slice.name);
    return names;
  };
  pair.timeline->begin_step();
  pair.client->send(0, question());
  ASSERT_TRUE(pair.server->receive(patience_s));
  EXPECT_TRUE(exposed().empty()) << "it did not block";
  const Tensor frame = counting(*pair.worker_device, {1 << 16});
  try {
    for (int i = 0; i < 1000; ++i) pair.client->send(0, question({frame}));
    FAIL() << "the messages are not read";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "server 0 did not accept a push_pull message within 0.05 s; raise train.timeout_s if the "
        "server is really busy for that long");
  }
  pair.timeline->end_step();
  ASSERT_FALSE(exposed().empty());
  EXPECT_EQ(exposed().back(), "send push_pull to server 0");
  EXPECT_GE(pair.timeline->step_times()[0].by_activity[static_cast<std::size_t>(Activity::exposed)],
            0.05);
  // Receives what was sent; otherwise closing the worker's end would take up to a second.
  while (pair.server->receive(0.05)) {
  }
}

TEST(ZmqChannel, SendsWithoutCopies) {
  ZmqPair pair({TransportKind::ipc});
  const Tensor frame = counting(*pair.worker_device, {1 << 18});
  const std::int64_t before = pair.worker_device->ledger().current().total();
  pair.client->send(0, question({frame}));
  EXPECT_EQ(pair.worker_device->ledger().current().total(), before);
  ASSERT_TRUE(pair.server->receive(patience_s));
}

TEST(ZmqChannel, WithinAProcessFramesAreViewsOfTheSendersMemory) {
  ZmqPair pair({});
  const Tensor frame = counting(*pair.worker_device, {64});
  pair.client->send(0, question({frame}));
  const auto received = pair.server->receive(patience_s);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->message.frames.at(0).buffer(), frame.buffer());
}

TEST(ZmqChannel, AnUnreadMessageGivesItsMemoryBack) {
  auto device = make_cpu_device(1);
  for (const Place& place : {Place{}, Place{TransportKind::ipc}}) {
    {
      ZmqPair pair(place);
      pair.client->send(0, question({counting(*device, {1 << 16})}));
    }
    EXPECT_EQ(device->ledger().current().total(), 0) << (place.transport ? "ipc" : "inproc");
  }
}

TEST(ZmqChannel, ConnectionsThatSendTooLargeFramesAreCut) {
  ZmqPair pair({TransportKind::ipc});
  pair.client->send(0, question({counting(*pair.worker_device, {(1 << 18) + 1})}));
  EXPECT_FALSE(pair.server->receive(0.2));
}

TEST(ZmqChannel, ATakenPortIsOneClearError) {
  const auto device = make_cpu_device(1);
  TransportOptions options{.transport = TransportKind::tcp, .port_option = "scheme.ps.port"};
  const ServerEnd first = open_server(*device, std::make_shared<ZmqContext>(), run, 1, 0, options);
  EXPECT_EQ(first.endpoint.rfind("tcp://127.0.0.1:", 0), 0u) << "listens on loopback alone";
  options.port = std::stoll(first.endpoint.substr(first.endpoint.rfind(':') + 1));
  try {
    open_server(*device, std::make_shared<ZmqContext>(), run, 1, 0, options);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(options.port)), std::string::npos) << text;
    EXPECT_NE(text.find("scheme.ps.port"), std::string::npos) << text;
  }
}

TEST(ZmqChannel, OneWorkerTalksToSeveralServers) {
  const auto device = make_cpu_device(1);
  std::vector<ServerEnd> servers;
  std::vector<std::string> endpoints;
  for (int s = 0; s < 3; ++s) {
    servers.push_back(open_server(*device, std::make_shared<ZmqContext>(), run, 1, s, {}));
    endpoints.push_back(servers.back().endpoint);
  }
  Timeline timeline(*device);
  const auto client =
      connect_worker(*device, std::make_shared<ZmqContext>(), run, 0, endpoints, {}, timeline);
  for (int s = 0; s < 3; ++s) client->send(s, question());
  for (auto& server : servers) {
    ASSERT_TRUE(server.channel->receive(patience_s));
    server.channel->send(0, question());
  }
  int peers = 0;
  for (int s = 0; s < 3; ++s) {
    const auto answer = client->receive(patience_s);
    ASSERT_TRUE(answer);
    peers |= 1 << answer->peer;
  }
  EXPECT_EQ(peers, 7);
}

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(ZmqContext, HasAsManyThreadsAsItIsAskedFor) {
  const auto threads_of_context = [](int asked) {
    ZmqContext zmq_context;
    zmq_context.use_threads(asked);
    const std::ptrdiff_t before = threads_of_process();
    const zmq::socket_t socket(zmq_context.context(), zmq::socket_type::dealer);
    return threads_of_process() - before;
  };
  EXPECT_EQ(threads_of_context(3) - threads_of_context(1), 2);
}

}  // namespace
}  // namespace ringside::ps
