// A worker's key in hands that claim another rank.
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "core/comm/store.h"
#include "ps/protocol/greeting.h"
#include "ps/protocol/server_loop.h"
#include "ps/transport/zmq/keys.h"
#include "tests/ps/host.h"
#include "tests/ps/server_fixture.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using testing::at_once;
using testing::crowd;
using testing::patience_s;

/// A server of two workers that have keys, served by a thread.
class ClaimsTest : public ServerTest {
 protected:
  ClaimsTest() {
    write_keys(folder_, 2);
    plan_.world = 2;
    plan_.servers = 1;
    plan_.train.steps = 10;
    plan_.train.timeout_s = patience_s;
    plan_.ranks = {{.rank = 0, .worker = -1, .server = 0}};
    ServerEnd end = open_server(*device_, std::make_shared<ZmqContext>(), run_, 2, 0, options_);
    endpoint_ = end.endpoint;
    served_ = std::move(end.channel);
    thread_ = std::jthread([this] {
      serve({plan_, 0, *device_, store_, timeline_}, *served_, server_, 60);
    });
  }

  /// A connection that shows the key of worker 1.
  zmq::socket_t with_key_of_worker_1(zmq::context_t& context) {
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    const KeyPair pair = read_key_pair(folder_, worker_key(1));
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvtimeo, static_cast<int>(patience_s * 1e3));
    socket.set(zmq::sockopt::curve_publickey, pair.public_key);
    socket.set(zmq::sockopt::curve_secretkey, pair.secret_key);
    socket.set(zmq::sockopt::curve_serverkey, read_public_key(folder_, server_key));
    socket.connect(endpoint_);
    return socket;
  }
  /// Why the server refuses the socket's message; empty if it does not.
  static std::string refusal(zmq::socket_t& socket) {
    zmq::message_t part;
    if (!socket.recv(part) || part.more()) return "";
    const Decoded decoded = decode({part.data<std::byte>(), part.size()});
    return decoded.header.kind == Kind::error ? decoded.header.text : "";
  }
  std::unique_ptr<Channel> join(int worker) {
    auto channel = connect_worker(*own_device_, std::make_shared<ZmqContext>(), run_, worker,
                                  {endpoint_}, options_, own_timeline_);
    Message hello = testing::message_of(token, Kind::hello, worker, 0);
    hello.header.text = greeting_of(plan_);
    channel->send(0, std::move(hello));
    return channel;
  }

  testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() / "keys";
  const TransportOptions options_{.transport = TransportKind::tcp,
                                  .address = "127.0.0.1",
                                  .keys = folder_,
                                  .timeout_s = patience_s};
  const ps::Run run_{.token = token, .outside = 2};
  RunPlan plan_;
  MemoryStore store_;
  Timeline timeline_{*device_};
  std::unique_ptr<Device> own_device_ = make_cpu_device(1);
  Timeline own_timeline_{*own_device_};
  ParameterServer server_{model_, chunks_, *device_, config(2)};
  std::string endpoint_;
  std::unique_ptr<Channel> served_;
  std::jthread thread_;
};

TEST_F(ClaimsTest, AreRefusedBeforeAFrameIsTakenAndTheRunGoesOn) {
  const Message claim = push(0, 0, 0);  // signed by worker 0
  const auto header = encode(claim);
  const Tensor& frame = claim.frames[0];
  int refused = 0;
  for (int round = 0; round < crowd / at_once; ++round) {
    zmq::context_t context;
    std::deque<zmq::socket_t> liars;
    for (int i = 0; i < at_once; ++i) {
      zmq::socket_t& liar = liars.emplace_back(with_key_of_worker_1(context));
      liar.send(zmq::buffer(header), zmq::send_flags::sndmore);
      liar.send(zmq::buffer(frame.data<float>(), frame.bytes()), zmq::send_flags::none);
    }
    for (zmq::socket_t& liar : liars)
      refused += refusal(liar) == "the message was signed by worker 0" ? 1 : 0;
  }
  EXPECT_EQ(refused, crowd);

  std::vector<std::unique_ptr<Channel>> workers;
  for (int w = 0; w < 2; ++w) {
    workers.push_back(join(w));
    workers.back()->send(0, push(w, 0, 0));
  }
  for (int w = 0; w < 2; ++w) {
    const auto received = workers[static_cast<std::size_t>(w)]->receive(patience_s);
    ASSERT_TRUE(received);
    EXPECT_EQ(received->message.header.kind, Kind::push_pull) << received->message.header.text;
    EXPECT_EQ(values_of(received->message.frames.at(0)), sequential(2, 1)[0]);
    workers[static_cast<std::size_t>(w)]->send(0, testing::message_of(token, Kind::done, w, 0));
  }
  thread_.join();
  std::int64_t of_workers = 0;
  for (const auto& worker : workers) of_workers += worker->traffic().sent;
  EXPECT_EQ(served_->traffic().received - of_workers,
            crowd * static_cast<std::int64_t>(header.size()))
      << "the headers, in which the claim stands, and no frame";
}

}  // namespace
}  // namespace ringside::ps
