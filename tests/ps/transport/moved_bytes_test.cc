// Slow links are told from silence by the bytes that they have moved.
#include "ps/transport/zmq/moved_bytes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "ps/protocol/channel.h"

namespace ringside::ps {
namespace {

/// Both ends of a TCP connection on this host.
class TcpPair {
 public:
  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
    one = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(one, reinterpret_cast<sockaddr*>(&address), length), 0);
    other = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~TcpPair() {
    close(one);
    close(other);
  }
  TcpPair(const TcpPair&) = delete;
  TcpPair& operator=(const TcpPair&) = delete;

  int one = -1, other = -1;
};

TEST(MovedBytesTest, CountBothDirectionsOfOneConnection) {
  auto pair = std::make_unique<TcpPair>();
  const MovedBytes moved(pair->one), there(pair->other);
  ASSERT_TRUE(moved.known());
  const std::int64_t before = moved.count(), there_before = there.count();
  const std::string bytes(10'000, 'x');
  ASSERT_EQ(write(pair->one, bytes.data(), bytes.size()), 10'000);
  ASSERT_EQ(write(pair->other, bytes.data(), 500), 500);
  while (moved.count() < before + 10'500)
    std::this_thread::yield();  // the other end's system says so
  EXPECT_EQ(moved.count(), before + 10'500);
  while (there.count() < there_before + 10'500) std::this_thread::yield();
  const int file = pair->one;
  pair.reset();
  EXPECT_EQ(moved.count(), 0) << "it has ended";
  const TcpPair next;
  ASSERT_TRUE(next.one == file || next.other == file);
  EXPECT_EQ(moved.count(), 0) << "another connection has its file";
  EXPECT_EQ(MovedBytes(-1).count(), 0);
}

TEST(MovedBytesTest, AreNoneOfWhatIsNoTcp) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_EQ(MovedBytes(pair[0]).count(), 0);
  close(pair[0]);
  close(pair[1]);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_FALSE(MovedBytes(pipes[0]).known());
  close(pipes[0]);
  close(pipes[1]);
}

TEST(SlowLinkTest, FlowsByMoreThanHeartbeats) {
  SlowLink link;
  link.begin(100'000);
  EXPECT_FALSE(link.flows(100'000));
  for (int beat = 1; beat <= 10; ++beat) EXPECT_FALSE(link.flows(100'000 + 200 * beat));
  EXPECT_TRUE(link.flows(106'000));
  EXPECT_FALSE(link.flows(106'500)) << "since it was true";
  EXPECT_TRUE(link.flows(111'000));
  EXPECT_FALSE(link.flows(0)) << "the connection has ended";
}

}  // namespace
}  // namespace ringside::ps
