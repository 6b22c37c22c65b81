#include "ps/protocol/client.h"

#include <gtest/gtest.h>

#include <deque>

#include "core/base/error.h"
#include "core/device/cpu/cpu_device.h"
#include "tests/support/complaint.h"
#include "tests/support/manual_device.h"

namespace ringside::ps {
namespace {

using testing::complaint;

constexpr std::uint64_t client_token = 9;

/// The messages that were sent, and those to receive.
struct Wire {
  struct Sent {
    int server;
    Header header;
  };
  std::vector<Sent> sent;
  std::deque<Received> incoming;
  std::function<void()> on_empty = [] {};  // when there is nothing to receive

  std::size_t requests(Kind kind) const {
    return static_cast<std::size_t>(std::count_if(
        sent.begin(), sent.end(), [&](const Sent& s) { return s.header.kind == kind; }));
  }
  void answer(const Sent& request) {
    incoming.push_back({request.server, {reply_to(request.header), {}}});
  }
};

class FakeChannel : public Channel {
 public:
  explicit FakeChannel(Wire& wire) : wire_(wire) {}
  void send(int peer, Message message) override { wire_.sent.push_back({peer, message.header}); }
  bool try_send(int peer, Message message) override {
    send(peer, std::move(message));
    return true;
  }
  std::optional<Received> receive(double) override {
    if (wire_.incoming.empty()) {
      wire_.on_empty();
      return {};
    }
    Received out = std::move(wire_.incoming.front());
    wire_.incoming.pop_front();
    return out;
  }
  Traffic traffic() const override { return {}; }

 private:
  Wire& wire_;
};

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> make_client(double timeout_s = 0.05, bool paced = false) {
    return std::make_unique<Client>(std::make_unique<FakeChannel>(wire_),
                                    ClientConfig{.worker = 2,
                                                 .servers = 2,
                                                 .token = client_token,
                                                 .timeout_s = timeout_s,
                                                 .paced = paced},
                                    device_->clock(), timeline_);
  }
  static Message pull(std::int64_t begin) {
    Message message;
    message.header.kind = Kind::pull;
    message.header.begin = begin;
    message.header.step = 4;
    return message;
  }
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Timeline timeline_{*device_};
  Wire wire_;
};

TEST_F(ClientTest, SignsEveryMessage) {
  const auto client = make_client();
  client->ask(1, pull(0), "values", [](const Message&) {});
  for (const auto& sent : wire_.sent) {
    EXPECT_EQ(sent.header.token, client_token);
    EXPECT_EQ(sent.header.worker, 2);
  }
  EXPECT_EQ(wire_.sent.back().server, 1);
}

TEST_F(ClientTest, KeepsAFewRequestsInFlightToEachServer) {
  const auto client = make_client(60);
  const std::size_t asked = 2 * Client::window + 3;
  std::size_t answered = 0;
  for (std::size_t i = 0; i < asked; ++i)
    client->ask(0, pull(static_cast<std::int64_t>(i)), "values",
                [&](const Message&) { ++answered; });
  client->ask(1, pull(0), "values", [&](const Message&) { ++answered; });
  EXPECT_EQ(wire_.requests(Kind::pull), Client::window + 1);
  for (std::size_t i = 0; i < wire_.sent.size(); ++i) {
    if (wire_.sent[i].header.kind == Kind::pull) wire_.answer(wire_.sent[i]);
    client->progress();
    EXPECT_LE(wire_.requests(Kind::pull), answered + Client::window + 1);
  }
  client->drain();
  EXPECT_EQ(answered, asked + 1);
}

TEST_F(ClientTest, UrgentRequestsOvertakeThoseThatAreNotSentYet) {
  const auto client = make_client(60);
  const auto window = static_cast<std::int64_t>(Client::window);
  // As backward goes: the last unit first, each in two parts.
  for (std::int64_t rank = 2 * window; rank > 0; rank -= 2)
    for (const std::int64_t part : {rank, rank + 1})
      client->ask(
          0, pull(part), "values", [](const Message&) {}, part);
  std::vector<std::int64_t> order;
  for (std::size_t i = 0; i < wire_.sent.size(); ++i) {
    if (wire_.sent[i].header.kind != Kind::pull) continue;
    order.push_back(wire_.sent[i].header.begin);
    wire_.answer(wire_.sent[i]);
    client->progress();
  }
  const std::int64_t half = window;
  ASSERT_EQ(order.size(), 2 * Client::window);
  for (std::int64_t i = 0; i < window; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], 2 * window - i / 2 * 2 + i % 2) << "as asked";
    EXPECT_EQ(order[static_cast<std::size_t>(half + i)], 2 + i) << "the first unit first";
  }
}

/// Two workers whose windows are full of different requests, each of which needs the other worker.
TEST_F(ClientTest, AWaitingClientSendsWhatIsMoreUrgentThanAllThatIsUnanswered) {
  const auto client = make_client(5);
  const auto window = static_cast<std::int64_t>(Client::window);
  for (std::int64_t rank = 2 * window - 1; rank >= 0; --rank)
    client->ask(
        0, pull(rank), "values", [](const Message&) {}, rank);
  EXPECT_EQ(wire_.requests(Kind::pull), Client::window);
  client->progress();
  EXPECT_EQ(wire_.requests(Kind::pull), Client::window) << "it does not wait";
  // The other worker has sent requests 0, 1, ... and the server answers each that both have sent.
  std::int64_t answered = 0;
  wire_.on_empty = [&] {
    const auto sent = std::find_if(wire_.sent.begin(), wire_.sent.end(), [&](const auto& s) {
      return s.header.kind == Kind::pull && s.header.begin == answered;
    });
    if (sent == wire_.sent.end()) return;
    EXPECT_LE(wire_.requests(Kind::pull), Client::window + static_cast<std::size_t>(answered) + 1);
    wire_.answer(*sent);
    ++answered;
  };
  client->drain();
  EXPECT_EQ(answered, 2 * window);
}

/// Server 0 keeps two thirds. Its requests are answered last, and those of server 1 do not run
/// ahead.
TEST_F(ClientTest, APacedClientKeepsFewRequestsInFlightToAllServersTogether) {
  constexpr std::int64_t all = 60, at_once = 2 * Client::paced_window;
  const auto client = make_client(60, true);
  std::int64_t answered = 0;
  for (std::int64_t rank = all - 1; rank >= 0; --rank)
    client->ask(
        rank % 3 == 2 ? 1 : 0, pull(rank), "values", [&](const Message&) { ++answered; }, rank);
  std::vector<std::int64_t> order;
  const auto unanswered = [&] {
    return static_cast<std::int64_t>(wire_.requests(Kind::pull)) - answered;
  };
  EXPECT_EQ(unanswered(), at_once);
  for (std::size_t i = 0; i < wire_.sent.size(); ++i) {
    if (wire_.sent[i].header.kind != Kind::pull) continue;
    order.push_back(wire_.sent[i].header.begin);
    wire_.answer(wire_.sent[i]);
    client->progress();
    EXPECT_LE(unanswered(), at_once);
  }
  EXPECT_EQ(answered, all);
  // After what was sent when nothing else was there, requests go in the order of their ranks.
  EXPECT_TRUE(std::is_sorted(order.begin() + at_once, order.end()));
}

/// As with a window for each server, so that no two paced workers wait for each other for ever.
TEST_F(ClientTest, APacedClientThatWaitsSendsWhatIsMoreUrgentThanAllThatIsUnanswered) {
  const auto client = make_client(5, true);
  constexpr std::int64_t all = 20;
  for (std::int64_t rank = all - 1; rank >= 0; --rank)
    client->ask(
        static_cast<int>(rank % 2), pull(rank), "values", [](const Message&) {}, rank);
  std::int64_t answered = 0;
  wire_.on_empty = [&] {
    const auto sent = std::find_if(wire_.sent.begin(), wire_.sent.end(), [&](const auto& s) {
      return s.header.kind == Kind::pull && s.header.begin == answered;
    });
    if (sent == wire_.sent.end()) return;
    wire_.answer(*sent);
    ++answered;
  };
  client->drain();
  EXPECT_EQ(answered, all);
}

TEST_F(ClientTest, MatchesRepliesInAnyOrder) {
  const auto client = make_client(60);
  std::vector<std::int64_t> order;
  for (std::int64_t begin : {10, 20, 30})
    client->ask(0, pull(begin), "values",
                [&](const Message& reply) { order.push_back(reply.header.begin); });
  for (std::size_t i = wire_.sent.size(); i-- > wire_.sent.size() - 3;) wire_.answer(wire_.sent[i]);
  client->progress();
  EXPECT_EQ(order, (std::vector<std::int64_t>{30, 20, 10}));
}

TEST_F(ClientTest, NamesTheServerAndTheRequestThatGetsNoAnswer) {
  const auto client = make_client();
  client->ask(1, pull(0), "pull block.3", [](const Message&) {});
  EXPECT_EQ(complaint([&] { client->drain(); }),
            "server 1 has not answered request 'pull block.3' of step 4 within 0.05 s; raise "
            "train.timeout_s if the server is really busy for that long");
}

TEST_F(ClientTest, DoesNotWaitForWhatNoReplyCanBring) {
  const auto client = make_client(60);
  EXPECT_EQ(complaint([&] { client->wait("values of head", [] { return false; }); }),
            "the worker waits for values of head, but has sent no request for it");
}

TEST_F(ClientTest, ThrowsWhatAServerRefuses) {
  const auto client = make_client();
  Message refusal;
  refusal.header = {.kind = Kind::error, .reply = true, .text = "worker 1 is silent"};
  wire_.incoming.push_back({1, refusal});
  EXPECT_EQ(complaint([&] { client->progress(); }), "server 1: worker 1 is silent");
}

TEST_F(ClientTest, ThrowsForRepliesWithoutARequest) {
  const auto client = make_client();
  Message stray = pull(0);
  stray.header.token = client_token;
  stray.header.worker = 2;
  stray.header.reply = true;
  wire_.incoming.push_back({0, stray});
  EXPECT_NE(complaint([&] { client->progress(); }), "nothing");
  stray.header.token = client_token + 1;
  wire_.incoming.push_back({0, stray});
  EXPECT_NE(complaint([&] { client->progress(); }), "nothing");
}

TEST_F(ClientTest, SaysThatItIsAliveWhileItWaits) {
  const auto client = make_client(0.2);
  const std::size_t before = wire_.requests(Kind::alive);
  client->ask(0, pull(0), "values", [](const Message&) {});
  EXPECT_NE(complaint([&] { client->drain(); }), "nothing");
  EXPECT_GT(wire_.requests(Kind::alive), before);
}

TEST_F(ClientTest, ATimeInWhichItWasStoppedIsNoSilence) {
  ringside::testing::ManualDevice stopped;
  auto client = std::make_unique<Client>(
      std::make_unique<FakeChannel>(wire_),
      ClientConfig{.worker = 2, .servers = 2, .token = client_token, .timeout_s = 60},
      stopped.clock(), timeline_);
  client->ask(0, pull(0), "values", [](const Message&) {});
  const Wire::Sent request = wire_.sent.back();
  wire_.on_empty = [&, looks = 0]() mutable {
    if (++looks == 3) stopped.set_time(3600);
    if (looks == 5) wire_.answer(request);
  };
  EXPECT_EQ(complaint([&] { client->drain(); }), "nothing");
  EXPECT_EQ(stopped.now(), 3600);
}

TEST_F(ClientTest, ItsLastWordTellsWhetherItFailed) {
  make_client();
  EXPECT_EQ(wire_.requests(Kind::done), 2u);
  EXPECT_EQ(wire_.requests(Kind::failed), 0u);
  try {
    const auto client = make_client();
    throw Error("the loss is nan");
  } catch (const Error&) {
  }
  EXPECT_EQ(wire_.requests(Kind::done), 2u);
  EXPECT_EQ(wire_.requests(Kind::failed), 2u);
}

/// The other servers and their workers may hear of it before the one that refused has spoken.
TEST_F(ClientTest, ItsLastWordSaysWhatAServerRefused) {
  Message refusal;
  refusal.header = {.kind = Kind::error, .reply = true, .text = "worker 1 is silent"};
  wire_.incoming.push_back({1, refusal});
  try {
    const auto client = make_client();
    client->progress();
  } catch (const Error&) {
  }
  EXPECT_EQ(wire_.sent.back().header.kind, Kind::failed);
  EXPECT_EQ(wire_.sent.back().header.text, "server 1: worker 1 is silent");
}

TEST_F(ClientTest, ASpanOfCommunicationLastsFromRequestToReply) {
  const auto client = make_client(60);
  timeline_.begin_step();
  client->ask(0, pull(0), "pull head", [](const Message&) {});
  wire_.answer(wire_.sent.back());
  client->drain();
  timeline_.end_step();
  const auto slices = timeline_.slices(0);
  EXPECT_TRUE(std::any_of(slices.begin(), slices.end(), [](const Slice& slice) {
    return slice.activity == "communication" && slice.name == "pull head";
  }));
}

}  // namespace
}  // namespace ringside::ps
