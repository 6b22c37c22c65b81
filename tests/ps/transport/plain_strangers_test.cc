// A server and strangers with plain sockets.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "ps/transport/zmq/listener.h"
#include "ps/transport/zmq/unproven.h"
#include "tests/ps/crowd.h"
#include "tests/ps/host.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

using testing::complaint;
using testing::connect_to;
using testing::Crowd;
using testing::crowd;
using testing::FewDescriptors;
using testing::Guest;
using testing::Host;
using testing::patience_s;
using testing::run;

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
  const TransportOptions options{.transport = TransportKind::tcp, .handshake_s = 0.5};
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
  const TransportOptions options{.transport = TransportKind::tcp, .handshake_s = 0.2};
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

TEST(Strangers, ThousandsOfIdleConnectionsLeaveDescriptorsAndWorkersCome) {
  const TransportOptions options{.transport = TransportKind::tcp, .handshake_s = 0.2};
  const FewDescriptors few(4096);
  Host host(options);
  const Crowd idle(host.endpoint(), 6000);
  const Descriptor own(dup(0));
  EXPECT_GE(own.get(), 0) << "this process can still open files";
  Guest worker(host, 0, options);
  EXPECT_TRUE(worker.is_answered());
}

TEST(Strangers, ReopenedIdleConnectionsKeepNoWorkerOut) {
  const TransportOptions options{.transport = TransportKind::tcp, .handshake_s = 3600};
  const FewDescriptors few(1024);
  Host host(options);
  const Crowd idle(host.endpoint(), 900, Crowd::Reopens::yes);
  Guest worker(host, 0, options);
  EXPECT_TRUE(worker.is_answered());
}

TEST(Strangers, FewConnectionsAreKeptOfAProcessWithFewDescriptors) {
  EXPECT_EQ(most_unproven(1 << 20), 64u);
  EXPECT_EQ(most_unproven(1024), 64u);
  EXPECT_EQ(most_unproven(256), 16u);
  EXPECT_EQ(most_unproven(0), 8u);
}

TEST(Strangers, CannotConnectOnceAllWorkersHaveCome) {
  const TransportOptions options{.transport = TransportKind::tcp};
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
  const TransportOptions options{.transport = TransportKind::tcp, .address = "0.0.0.0"};
  EXPECT_NE(complaint([&] {
              open_server(*device, std::make_shared<ZmqContext>(), run, 1, 0, options);
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
    for (int i = 0; i < crowd; ++i)
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
  const ServerEnd server = open_server(*device, std::make_shared<ZmqContext>(), run, 1, 0, {});
  std::vector<Descriptor> own;
  for (int i = 0; i < 300; ++i) own.emplace_back(dup(0));
  EXPECT_NE(complaint([&] { server.channel->receive(1); }).find("half of its 512 file descriptors"),
            std::string::npos);
}

}  // namespace
}  // namespace ringside::ps
