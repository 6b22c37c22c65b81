// Streams between holders of keys, beside strangers.
#include "ps/transport/zmq/keyed_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "ps/transport/zmq/keys.h"
#include "ps/transport/zmq/listener.h"
#include "tests/ps/crowd.h"
#include "tests/ps/host.h"
#include "tests/support/complaint.h"

namespace ringside::ps {
namespace {

using testing::crowd;
using testing::Crowd;
using testing::FewDescriptors;
using ::testing::HasSubstr;
using testing::patience_s;

class KeyedStreams : public ::testing::Test {
 protected:
  KeyedAddress address_of(int port) const {
    return {.options = {.transport = TransportKind::tcp,
                        .port = port,
                        .address = "127.0.0.1",
                        .drawn_keys = keys_}};
  }
  /// The worker whose stream comes next; -1: none comes.
  static int next_worker(StreamListener& listener) {
    pollfd waits{listener.file(), POLLIN, 0};
    if (poll(&waits, 1, static_cast<int>(1e3 * patience_s)) != 1) return -1;
    const auto stream = listener.accept();
    if (!stream) return -1;
    close(stream->socket);
    return stream->holder->worker;
  }

  const std::string keys_ = draw_keys(2);
};

TEST_F(KeyedStreams, ReopenedIdleConnectionsKeepNoHolderOfAKeyOut) {
  const FewDescriptors few(1024);
  const auto listener = listen_with_keys(address_of(0), 2, 10);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(listener->port());
  const Crowd idle(endpoint, 900, Crowd::Reopens::yes);
  for (int worker = 0; worker < 2; ++worker) {
    const auto stream =
        connect_with_key(address_of(listener->port()), worker_key(worker), patience_s);
    EXPECT_EQ(next_worker(*listener), worker);
  }
  EXPECT_GT(listener->strangers(), 0u);
}

TEST_F(KeyedStreams, CountWhoHasNoKey) {
  const auto listener = listen_with_keys(address_of(0), 2, 10);
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(listener->port());
  for (int i = 0; i < 3; ++i) {
    const int stranger = testing::connect_to(endpoint, 1000);
    ASSERT_GE(stranger, 0);
    EXPECT_EQ(send(stranger, "{\"join\": 1}\n", 12, MSG_NOSIGNAL), 12);
    char said[256];
    for (pollfd end{stranger, POLLIN, 0}; poll(&end, 1, 10'000) == 1;)
      if (recv(stranger, said, sizeof said, 0) <= 0) break;
    close(stranger);
  }
  const auto stream = connect_with_key(address_of(listener->port()), worker_key(1), patience_s);
  EXPECT_EQ(next_worker(*listener), 1);
  EXPECT_EQ(listener->strangers(), 3u);
}

/// What strangers say never becomes a stream, so whoever reads the streams has nothing to decode;
/// and they hear nothing but ZeroMQ's greeting.
TEST_F(KeyedStreams, OfManyStrangersNoneIsHeardOrAnswered) {
  const std::string of_four = draw_keys(4), others = draw_keys(4);
  KeyedAddress address = address_of(0);
  address.options.drawn_keys = of_four;
  const auto listener = listen_with_keys(address, 2, 10);
  address.options.port = listener->port();
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(listener->port());
  for (int i = 0; i < crowd / 3; ++i) {
    const Descriptor stranger(testing::connect_to(endpoint, 1000));
    ASSERT_GE(stranger.get(), 0);
    EXPECT_EQ(send(stranger.get(), "{\"join\": 1}\n", 12, MSG_NOSIGNAL), 12);
    std::string heard;
    char said[256];
    for (pollfd end{stranger.get(), POLLIN, 0}; poll(&end, 1, 10'000) == 1;) {
      const ssize_t n = recv(stranger.get(), said, sizeof said, 0);
      if (n <= 0) break;
      heard.append(said, static_cast<std::size_t>(n));
    }
    EXPECT_EQ(heard.find('{'), std::string::npos);
    EXPECT_LE(heard.size(), 64u) << "ZeroMQ's greeting";

    KeyedAddress another = address;
    another.options.drawn_keys = others;
    EXPECT_THAT(testing::complaint([&] { connect_with_key(another, worker_key(0), patience_s); }),
                HasSubstr("without a proof that it has the secret"));
    EXPECT_THAT(testing::complaint([&] { connect_with_key(address, worker_key(3), patience_s); }),
                HasSubstr("does not know the key"));
  }
  const auto stream = connect_with_key(address, worker_key(1), patience_s);
  EXPECT_EQ(next_worker(*listener), 1) << "the first stream of all";
}

/// A stream between two ends of this process.
class KeyedStreamsBothEnds : public KeyedStreams {
 protected:
  KeyedStreamsBothEnds() {
    pollfd waits{listener_->file(), POLLIN, 0};
    EXPECT_EQ(poll(&waits, 1, static_cast<int>(1e3 * patience_s)), 1);
    there_ = Descriptor(listener_->accept()->socket);
  }
  static std::size_t write_all(int socket, std::size_t count) {
    const std::string text(1 << 16, 'x');
    std::size_t written = 0;
    while (written < count) {
      const ssize_t n =
          send(socket, text.data(), std::min(text.size(), count - written), MSG_NOSIGNAL);
      if (n <= 0) break;
      written += static_cast<std::size_t>(n);
    }
    return written;
  }
  static std::size_t read_to_end(int socket) {
    std::string text(1 << 16, ' ');
    std::size_t count = 0;
    for (ssize_t n; (n = recv(socket, text.data(), text.size(), 0)) > 0;)
      count += static_cast<std::size_t>(n);
    return count;
  }

  static constexpr std::size_t many = 48 << 20;  // more than all buffers between the ends hold

  std::unique_ptr<StreamListener> listener_ = listen_with_keys(address_of(0), 2, 10);
  std::unique_ptr<StreamLink> link_ =
      connect_with_key(address_of(listener_->port()), worker_key(1), patience_s);
  Descriptor here_{link_->release_socket()}, there_{};
};

TEST_F(KeyedStreamsBothEnds, AWriterWaitsForAReader) {
  for (Descriptor* writer : {&here_, &there_}) {
    const int reader = writer == &here_ ? there_.get() : here_.get();
    std::atomic<std::size_t> written = 0;
    std::jthread writes([&] { written = write_all(writer->get(), many); });
    // Until the writer has to wait: then its socket is full.
    for (pollfd room{writer->get(), POLLOUT, 0}; poll(&room, 1, 0) == 1 && written == 0;)
      std::this_thread::yield();
    std::string text(1 << 16, ' ');
    std::size_t count = 0;
    for (ssize_t n = 1; n > 0 && count < many; count += static_cast<std::size_t>(n))
      n = recv(reader, text.data(), text.size(), 0);
    writes.join();
    EXPECT_EQ(count, many);
    EXPECT_EQ(written, many);
  }
}

TEST_F(KeyedStreamsBothEnds, WhatWasWrittenComesBeforeTheEnd) {
  constexpr std::size_t some = 1 << 20;
  std::size_t count = 0;
  std::jthread reads([&] { count = read_to_end(there_.get()); });
  EXPECT_EQ(write_all(here_.get(), some), some);
  here_.reset();
  link_.reset();
  reads.join();
  EXPECT_EQ(count, some);
}

TEST_F(KeyedStreamsBothEnds, AListenerThatEndsIsNoticed) {
  constexpr std::size_t some = 1 << 20;
  std::size_t count = 0;
  std::jthread reads([&] { count = read_to_end(here_.get()); });
  EXPECT_EQ(write_all(there_.get(), some), some);
  there_.reset();
  listener_.reset();
  reads.join();
  EXPECT_EQ(count, some);
}

}  // namespace
}  // namespace ringside::ps
