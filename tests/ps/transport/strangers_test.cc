// A server and strangers that speak ZeroMQ's protocol.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "ps/protocol/archive.h"
#include "ps/transport/zmq/keys.h"
#include "tests/ps/host.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using testing::at_once;
using testing::complaint;
using testing::crowd;
using testing::Guest;
using testing::Host;
using testing::message_of;
using testing::patience_s;
using testing::run;

/// A socket of a stranger that has only ZeroMQ and the server's address. `prepare` sets its
/// credentials.
class Stranger {
 public:
  template <class Prepare>
  Stranger(zmq::context_t& context, const std::string& endpoint, Prepare prepare)
      : socket_(context, zmq::socket_type::dealer), events_(context, zmq::socket_type::pair) {
    const std::string address = fmt::format("inproc://events-{}", fmt::ptr(this));
    zmq_socket_monitor(socket_.handle(), address.c_str(), ZMQ_EVENT_ALL);
    events_.connect(address);
    socket_.set(zmq::sockopt::linger, 0);
    prepare(socket_);
    socket_.connect(endpoint);
    socket_.send(zmq::str_buffer("let me in"), zmq::send_flags::dontwait);
  }
  /// Whether the server ends the connection before it has taken a message.
  bool is_refused() {
    events_.set(zmq::sockopt::rcvtimeo, static_cast<int>(patience_s * 1e3));
    while (true) {
      zmq::message_t event, address;
      if (!events_.recv(event) || !events_.recv(address)) return false;
      std::uint16_t kind = 0;
      std::memcpy(&kind, event.data(), sizeof kind);
      if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return false;
      if (kind == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH || kind == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
          kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || kind == ZMQ_EVENT_DISCONNECTED)
        return true;
    }
  }

 private:
  zmq::socket_t socket_, events_;
};

template <class Prepare>
int refused(const std::string& endpoint, Prepare prepare) {
  std::ptrdiff_t refused = 0;
  for (int round = 0; round < crowd / at_once; ++round) {
    zmq::context_t context;
    std::deque<Stranger> strangers;
    for (int i = 0; i < at_once; ++i) strangers.emplace_back(context, endpoint, prepare);
    refused += std::count_if(strangers.begin(), strangers.end(),
                             [](Stranger& s) { return s.is_refused(); });
  }
  return static_cast<int>(refused);
}

void without_credentials(zmq::socket_t& socket) { socket.set(zmq::sockopt::routing_id, "0"); }
void with_another_secret(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::plain_username, "0");
  socket.set(zmq::sockopt::plain_password, "guessed");
}
void of_no_worker(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::plain_username, "2");
  socket.set(zmq::sockopt::plain_password, run.secret);
}

class StrangersTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  TransportOptions options_{.transport = GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Protocols, StrangersTest,
                         ::testing::Values(TransportKind::ipc, TransportKind::tcp),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(StrangersTest, WhoDoesNotKnowTheSecretIsRefusedAndNothingIsDecoded) {
  Host host(options_);
  EXPECT_EQ(refused(host.endpoint(), without_credentials), crowd);
  EXPECT_EQ(refused(host.endpoint(), with_another_secret), crowd);
  EXPECT_EQ(refused(host.endpoint(), of_no_worker), crowd);
  EXPECT_EQ(host.decoded(), 0);
}

TEST_P(StrangersTest, WorkersComeInTheMidstOfStrangers) {
  Host host(options_, {.token = run.token, .secret = run.secret, .outside = 2});
  Guest first(host, 0, options_);
  EXPECT_TRUE(first.is_answered());
  EXPECT_EQ(refused(host.endpoint(), with_another_secret), crowd);
  Guest second(host, 1, options_);
  EXPECT_TRUE(second.is_answered());
  EXPECT_TRUE(first.is_answered());
  EXPECT_EQ(host.heard(0), 2);
  EXPECT_EQ(host.heard(1), 1);
}

TEST_P(StrangersTest, AWorkerOfThisRankIsConnectedOnce) {
  Host host(options_, {.token = run.token, .secret = run.secret, .outside = 2});
  Guest worker(host, 0, options_);
  EXPECT_TRUE(worker.is_answered());
  Guest again(host, 0, options_);
  EXPECT_TRUE(again.is_answered()) << "it is told why it is refused";
  EXPECT_EQ(host.heard(0), 1);
}

class Keys : public ::testing::Test {
 protected:
  Keys() {
    write_keys(folder_, 2);
    write_keys(others_, 2);
  }
  /// With these own keys, for the server whose key stands in the folder.
  auto with(const std::string& folder, const std::string& name) {
    return [this, pair = read_key_pair(folder, name)](zmq::socket_t& socket) {
      socket.set(zmq::sockopt::routing_id, "0");
      socket.set(zmq::sockopt::curve_publickey, pair.public_key);
      socket.set(zmq::sockopt::curve_secretkey, pair.secret_key);
      socket.set(zmq::sockopt::curve_serverkey, read_public_key(folder_, server_key));
    };
  }
  testing::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path() / "keys", others_ = temporary_.path() / "others";
  TransportOptions options_{
      .transport = TransportKind::tcp, .address = "127.0.0.1", .keys = folder_};
};

TEST_F(Keys, WithoutAKeyAndWithAnotherKeyNoStrangerIsAdmitted) {
  Host host(options_);
  EXPECT_EQ(refused(host.endpoint(), without_credentials), crowd);
  EXPECT_EQ(refused(host.endpoint(), of_no_worker), crowd) << "the secret is no key";
  EXPECT_EQ(refused(host.endpoint(), with(others_, worker_key(0))), crowd);
  EXPECT_EQ(host.decoded(), 0);
}

TEST_F(Keys, TheKeyTellsTheRankWhateverTheWorkerSays) {
  const auto device = make_cpu_device(1);
  const ServerEnd server =
      open_server(*device, std::make_shared<ZmqContext>(), run, 2, 0, options_);
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  with(folder_, worker_key(1))(socket);  // and with the name of worker 0
  socket.connect(server.endpoint);
  const auto header = encode(message_of(run.token, Kind::alive, 0, 0));
  socket.send(zmq::buffer(header));
  const auto received = server.channel->receive(patience_s);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->peer, 1);
  EXPECT_EQ(received->message.header.worker, 0) << "which a server refuses: see claims_test";
}

TEST_F(Keys, WorkersWithKeysAreServed) {
  Host host(options_, {.token = run.token, .outside = 2});
  Guest first(host, 0, options_), second(host, 1, options_);
  EXPECT_TRUE(second.is_answered());
  EXPECT_TRUE(first.is_answered());
}

TEST(Strangers, AWorkerOfAnotherVersionEndsTheRun) {
  const auto device = make_cpu_device(1);
  const ServerEnd server = open_server(*device, std::make_shared<ZmqContext>(), run, 2, 0, {});
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::plain_username, "1");
  socket.set(zmq::sockopt::plain_password, run.secret);
  socket.connect(server.endpoint);
  auto header = encode(message_of(run.token, Kind::hello, 1, 0));
  constexpr std::size_t version_at = 4;
  header.at(version_at) = std::byte{9};
  socket.send(zmq::buffer(header));
  EXPECT_EQ(complaint([&] { server.channel->receive(patience_s); }),
            fmt::format("server 0 refuses worker 1: message header: version is 9, but this program "
                        "has {}; start all ranks with the same program",
                        protocol_version));
  zmq::message_t answer;
  ASSERT_TRUE(socket.recv(answer)) << "which the worker cannot read, and so says the same";
  EXPECT_EQ(answer.data<char>()[version_at], protocol_version);
}

}  // namespace
}  // namespace ringside::ps
