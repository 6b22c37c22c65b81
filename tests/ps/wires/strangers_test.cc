// What a server does about those who are not of its run.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "ps/protocol/archive.h"
#include "ps/wires/zmq/ends.h"
#include "ps/wires/zmq/keys.h"
#include "ps/wires/zmq/listener.h"
#include "tests/ps/messages.h"
#include "tests/support/complaint.h"
#include "tests/support/temporary_folder.h"

namespace ringside::ps {
namespace {

using testing::complaint;
using testing::message_of;

constexpr double patience_s = 20;
constexpr int crowd = 100;  // strangers of one sort
const Run run{.token = 42, .secret = "only workers know it"};

/// A server that receives on a thread of its own, and counts messages by worker.
class Host {
 public:
  explicit Host(TransportOptions options, const Run& its_run = run)
      : device_(make_cpu_device(1)), end_(open(options, its_run)) {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested())
        if (const auto received = end_.channel->receive(0.01)) {
          ++heard_.at(static_cast<std::size_t>(received->peer));
          end_.channel->try_send(received->peer, {reply_to(received->message.header), {}});
        }
    });
  }
  const std::string& endpoint() const { return end_.endpoint; }
  int heard(std::size_t worker) const { return heard_.at(worker); }
  /// Bytes of all messages that were decoded. Ends the thread.
  std::int64_t decoded() {
    thread_ = {};
    return end_.channel->traffic().received;
  }

 private:
  ServerEnd open(const TransportOptions& options, const Run& its_run) {
    return open_server(*device_, std::make_shared<Hub>(), its_run, 2, 0, options);
  }
  std::unique_ptr<Device> device_;
  ServerEnd end_;
  std::array<std::atomic<int>, 2> heard_{};
  std::jthread thread_;
};

/// A worker that knows the run.
class Guest {
 public:
  Guest(const Host& host, int worker, const TransportOptions& options)
      : worker_(worker),
        channel_(connect_worker(*device_, std::make_shared<Hub>(), run, worker, {host.endpoint()},
                                options, timeline_)) {}
  /// Says something and waits for an answer.
  bool is_answered() {
    channel_->send(0, message_of(run.token, Kind::alive, worker_, 0));
    return channel_->receive(patience_s).has_value();
  }

 private:
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Timeline timeline_{*device_};
  int worker_;
  std::unique_ptr<Channel> channel_;
};

/// A socket of somebody who has only ZeroMQ and the server's address. `prepare` sets its
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
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, 4 * crowd);
  std::deque<Stranger> strangers;
  for (int i = 0; i < crowd; ++i) strangers.emplace_back(context, endpoint, prepare);
  return static_cast<int>(std::count_if(strangers.begin(), strangers.end(),
                                        [](Stranger& s) { return s.is_refused(); }));
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

class StrangersTest : public ::testing::TestWithParam<ZmqProtocol> {
 protected:
  TransportOptions options_{.transport = GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Protocols, StrangersTest,
                         ::testing::Values(ZmqProtocol::ipc, ZmqProtocol::tcp),
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
  TransportOptions options_{.transport = ZmqProtocol::tcp, .address = "127.0.0.1", .keys = folder_};
};

TEST_F(Keys, WithoutAKeyAndWithAnotherKeyNobodyIsAdmitted) {
  Host host(options_);
  EXPECT_EQ(refused(host.endpoint(), without_credentials), crowd);
  EXPECT_EQ(refused(host.endpoint(), of_no_worker), crowd) << "the secret is no key";
  EXPECT_EQ(refused(host.endpoint(), with(others_, worker_key(0))), crowd);
  EXPECT_EQ(host.decoded(), 0);
}

TEST_F(Keys, TheKeyTellsTheRankWhateverTheWorkerSays) {
  const auto device = make_cpu_device(1);
  const ServerEnd server = open_server(*device, std::make_shared<Hub>(), run, 2, 0, options_);
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  with(folder_, worker_key(1))(socket);  // and with the name of worker 0
  socket.connect(server.endpoint);
  const auto header = encode(message_of(run.token, Kind::alive, 0, 0));
  socket.send(zmq::buffer(header));
  const auto received = server.channel->receive(patience_s);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->peer, 1);
  EXPECT_EQ(received->message.header.worker, 0) << "which a server refuses: see server_refusals";
}

TEST_F(Keys, WorkersWithKeysAreServed) {
  Host host(options_, {.token = run.token, .outside = 2});
  Guest first(host, 0, options_), second(host, 1, options_);
  EXPECT_TRUE(second.is_answered());
  EXPECT_TRUE(first.is_answered());
}

TEST(Strangers, AWorkerOfAnotherVersionEndsTheRun) {
  const auto device = make_cpu_device(1);
  const ServerEnd server = open_server(*device, std::make_shared<Hub>(), run, 2, 0, {});
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
            "server 0 refuses worker 1: message header: version is 9, but this program speaks 2; "
            "start all ranks with the same program");
  zmq::message_t answer;
  ASSERT_TRUE(socket.recv(answer)) << "which the worker cannot read, and so says the same";
  EXPECT_EQ(answer.data<char>()[version_at], 2);
}

/// A plain connection to a server on tcp, or -1 if none comes about within the time.
int connect_to(const std::string& endpoint, int patience_ms) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  pollfd item{number, POLLOUT, 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (poll(&item, 1, patience_ms) == 1 &&
      getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
    return number;
  close(number);
  return -1;
}

/// The greeting of ZeroMQ's protocol (ZMTP 3.0) with a security mechanism.
std::string greeting(const std::string& mechanism) {
  std::string out("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\0", 12);
  out += mechanism;
  out.resize(64);
  return out;
}

/// How many bytes the server takes before it ends the connection; -1 if it takes all `most`.
std::int64_t bytes_taken(int connection, std::string bytes, const std::string& again,
                         std::int64_t most) {
  std::int64_t taken = 0;
  while (taken < most) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      taken += sent;
      bytes.erase(0, static_cast<std::size_t>(sent));
      if (bytes.empty()) bytes = again;
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return taken;
    pollfd item{connection, POLLOUT, 0};
    if (poll(&item, 1, static_cast<int>(patience_s * 1e3)) != 1) return -1;
  }
  return -1;
}

TEST(Strangers, EndlessFramesAreNotTaken) {
  const TransportOptions options{.transport = ZmqProtocol::tcp, .handshake_s = 0.5};
  Host host(options);
  std::string frame("\x03\0\0\0\0\0\0\xFF\xFF", 9);  // the flags "more" and "long", and its size
  frame.resize(frame.size() + 0xFFFF);
  for (const char* mechanism : {"NULL", "PLAIN", "CURVE"}) {
    const Descriptor stranger(connect_to(host.endpoint(), 1000));
    ASSERT_GE(stranger.get(), 0);
    const std::int64_t taken =
        bytes_taken(stranger.get(), greeting(mechanism), frame, std::int64_t{256} << 20);
    EXPECT_GE(taken, 0) << mechanism;
    EXPECT_LT(taken, 16 << 20) << mechanism << ": what the system's buffers hold";
  }
  EXPECT_EQ(host.decoded(), 0);
}

TEST(Strangers, WhoSaysTooLittleIsCut) {
  const TransportOptions options{.transport = ZmqProtocol::tcp, .handshake_s = 0.2};
  Host host(options);
  const Descriptor stranger(connect_to(host.endpoint(), 1000));
  ASSERT_GE(stranger.get(), 0);
  std::int64_t sent = 0;
  const std::string hello = greeting("PLAIN");
  for (pollfd item{stranger.get(), POLLIN, 0}; sent < std::ssize(hello);) {
    if (send(stranger.get(), hello.data() + sent, 1, MSG_NOSIGNAL) != 1) break;
    ++sent;
    char answer[128];
    if (poll(&item, 1, 50) == 1 && recv(stranger.get(), answer, sizeof answer, 0) <= 0) break;
  }
  EXPECT_LT(sent, std::ssize(hello)) << "a byte at a time takes longer than a handshake may";
}

/// Opens connections in a process of its own and keeps them until its pipe is closed.
class Crowd {
 public:
  explicit Crowd(const std::string& endpoint, int size) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    EXPECT_EQ(pipe(end_), 0);
    child_ = fork();
    if (child_ == 0) {
      close(end_[1]);
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = limit.rlim_max;
      setrlimit(RLIMIT_NOFILE, &limit);
      for (int i = 0; i < size; ++i) connect_to(endpoint, 0);
      char byte = 0;
      if (write(ready[1], &byte, 1) == 1 && read(end_[0], &byte, 1) == 0) _exit(0);
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
  }
  ~Crowd() {
    close(end_[0]);
    close(end_[1]);
    waitpid(child_, nullptr, 0);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  int end_[2];
  pid_t child_ = -1;
};

/// Few file descriptors for this process, for a while.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

TEST(Strangers, ThousandsOfIdleConnectionsLeaveDescriptorsAndWorkersCome) {
  const TransportOptions options{.transport = ZmqProtocol::tcp, .handshake_s = 0.2};
  const FewDescriptors few(4096);
  Host host(options);
  const Crowd idle(host.endpoint(), 6000);
  const Descriptor own(dup(0));
  EXPECT_GE(own.get(), 0) << "this process can still open files";
  Guest worker(host, 0, options);
  EXPECT_TRUE(worker.is_answered());
}

TEST(Strangers, NobodyCanConnectOnceAllWorkersHaveCome) {
  const TransportOptions options{.transport = ZmqProtocol::tcp};
  Host host(options);
  const Descriptor before(connect_to(host.endpoint(), 1000));
  EXPECT_GE(before.get(), 0);
  Guest worker(host, 0, options);
  EXPECT_TRUE(worker.is_answered());
  const Descriptor after(connect_to(host.endpoint(), 50));
  EXPECT_LT(after.get(), 0);
  EXPECT_TRUE(worker.is_answered());
}

TEST(Strangers, NoServerListensForOtherMachinesWithoutKeys) {
  const auto device = make_cpu_device(1);
  const TransportOptions options{.transport = ZmqProtocol::tcp, .address = "0.0.0.0"};
  EXPECT_NE(complaint([&] {
              open_server(*device, std::make_shared<Hub>(), run, 1, 0, options);
            }).find("there are no keys"),
            std::string::npos);
}

/// errno of a connection to a local socket; 0 if it comes about.
int failure_to_connect(const std::string& endpoint) {
  const int number = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, endpoint.c_str() + std::strlen("ipc://"),
               sizeof address.sun_path - 1);
  const int rc = connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int cause = rc == 0 ? 0 : errno;
  close(number);
  return cause;
}

TEST(Strangers, AnotherUserCannotConnectToALocalSocket) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Host host({});
  EXPECT_EQ(failure_to_connect(host.endpoint()), 0) << "this user can";
  const pid_t child = fork();
  if (child == 0) {
    constexpr int nobody = 65534;
    if (setgid(nobody) != 0 || setuid(nobody) != 0) _exit(1);
    for (int i = 0; i < 3 * crowd; ++i)
      if (failure_to_connect(host.endpoint()) != EACCES) _exit(2);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Strangers, ALocalSocketIsGoneOnceAllWorkersHaveCome) {
  Host host({});
  Guest worker(host, 0, {});
  EXPECT_TRUE(worker.is_answered());
  EXPECT_NE(failure_to_connect(host.endpoint()), 0);
  EXPECT_TRUE(worker.is_answered());
}

TEST(Strangers, TooManyConnectionsOfThisUserAreAnErrorAndNoAbort) {
  const FewDescriptors few(512);
  const auto device = make_cpu_device(1);
  const ServerEnd server = open_server(*device, std::make_shared<Hub>(), run, 1, 0, {});
  std::vector<Descriptor> own;
  for (int i = 0; i < 300; ++i) own.emplace_back(dup(0));
  EXPECT_NE(complaint([&] { server.channel->receive(1); }).find("half of its 512 file descriptors"),
            std::string::npos);
}

}  // namespace
}  // namespace ringside::ps
