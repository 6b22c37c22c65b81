// Streams between holders of keys, beside strangers.
#include "ps/transport/zmq/keyed_streams.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "ps/transport/zmq/keys.h"
#include "tests/ps/crowd.h"
#include "tests/ps/host.h"

namespace ringside::ps {
namespace {

using testing::Crowd;
using testing::FewDescriptors;
using testing::patience_s;

class KeyedStreams : public ::testing::Test {
 protected:
  KeyedAddress address_of(int port) const {
    return {.host = "127.0.0.1", .port = port, .drawn_keys = keys_};
  }
  /// The member whose stream comes next; -1: none comes.
  static int next_member(KeyedListener& listener) {
    pollfd waits{listener.file(), POLLIN, 0};
    if (poll(&waits, 1, static_cast<int>(1e3 * patience_s)) != 1) return -1;
    const auto stream = listener.accept();
    if (!stream) return -1;
    close(stream->socket);
    return stream->member;
  }

  const std::string keys_ = draw_keys(2);
};

TEST_F(KeyedStreams, ReopenedIdleConnectionsKeepNoHolderOfAKeyOut) {
  const FewDescriptors few(1024);
  KeyedListener listener(address_of(0), 2, 10);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(listener.port());
  const Crowd idle(endpoint, 900, Crowd::Reopens::yes);
  for (int worker = 0; worker < 2; ++worker) {
    const KeyedStream stream(address_of(listener.port()), worker_key(worker), patience_s);
    EXPECT_EQ(next_member(listener), worker);
  }
  EXPECT_GT(listener.strangers(), 0u);
}

TEST_F(KeyedStreams, CountWhoHasNoKey) {
  KeyedListener listener(address_of(0), 2, 10);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(listener.port());
  for (int i = 0; i < 3; ++i) {
    const int stranger = testing::connect_to(endpoint, 1000);
    ASSERT_GE(stranger, 0);
    EXPECT_EQ(send(stranger, "{\"join\": 1}\n", 12, MSG_NOSIGNAL), 12);
    char said[256];
    for (pollfd end{stranger, POLLIN, 0}; poll(&end, 1, 10'000) == 1;)
      if (recv(stranger, said, sizeof said, 0) <= 0) break;
    close(stranger);
  }
  const KeyedStream stream(address_of(listener.port()), worker_key(1), patience_s);
  EXPECT_EQ(next_member(listener), 1);
  EXPECT_EQ(listener.strangers(), 3u);
}

}  // namespace
}  // namespace ringside::ps
