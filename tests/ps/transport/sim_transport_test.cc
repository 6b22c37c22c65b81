// The time of messages in a simulated world.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "ps/protocol/archive.h"
#include "ps/transport/sim/transport.h"
#include "tests/ps/simulated.h"

namespace ringside::ps {
namespace {

constexpr std::int64_t chunk = 1 << 18;  // elements, 1 MB
constexpr double virtual_patience_s = 1000;

/// One worker or server, which runs as an actor. Its tensors have no values.
struct SimulatedParty {
  sim::World& world;
  Device& device;
  Channel& channel;
  int id;
};
using SimulatedPlay = std::function<void(SimulatedParty&)>;

/// Runs `worker` on every worker and `server` on every server. Rank r lives at places[r]; the
/// workers are the first ranks. Returns the virtual seconds that the run took.
double play(const sim::ClusterSpec& cluster, int workers, int servers,
            const std::vector<sim::Place>& places, const SimulatedPlay& worker,
            const SimulatedPlay& server, TransportKind kind = TransportKind::automatic) {
  const auto world = sim::make_world(cluster);
  const RunPlan plan = testing::tiny_plan(workers, servers, false, 1);
  MemoryStore store;
  const auto transport = sim_transport();
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    world->spawn("party", places[r], [&, r] {
      const auto device = sim::make_sim_device(cluster, world.get(), places[r], nullptr);
      Timeline timeline(*device);
      const RankContext context{plan, static_cast<int>(r), *device, store, timeline};
      const bool serves = plan.ranks[r].server >= 0;
      const TransportOptions options{.transport = kind, .timeout_s = virtual_patience_s};
      const Connection connection =
          serves ? transport->listen(context, options) : transport->connect(context, options);
      SimulatedParty party{*world, *device, *connection.channel,
                           serves ? plan.ranks[r].server : plan.ranks[r].worker};
      (serves ? server : worker)(party);
    });
  world->run();
  return world->now();
}

Message gradients(const SimulatedParty& self, std::int64_t elements = chunk) {
  Message message;
  message.header = {.token = 1, .kind = Kind::push, .worker = self.id};
  message.frames = {self.device.tensor({elements}, MemoryKind::gradient)};
  return message;
}

SimulatedPlay sends(int messages) {
  return [messages](SimulatedParty& self) {
    for (int i = 0; i < messages; ++i) self.channel.send(0, gradients(self));
  };
}
SimulatedPlay takes(int messages) {
  return [messages](SimulatedParty& self) {
    for (int i = 0; i < messages; ++i) {
      const auto received = self.channel.receive(virtual_patience_s);
      ASSERT_TRUE(received);
      EXPECT_EQ(received->message.frames.at(0).count(), chunk);
    }
  };
}

std::vector<sim::Place> places(int ranks) {
  std::vector<sim::Place> places;
  for (int r = 0; r < ranks; ++r) places.push_back({r, 0});
  return places;
}

/// The time that all messages from a worker to the server took, and the bytes of each message.
struct Sent {
  double seconds = 0, bytes = 0;
};
Sent send(const sim::ClusterSpec& cluster, int messages) {
  Sent out;
  const auto worker = [&](SimulatedParty& self) {
    const Message message = gradients(self);
    out.bytes = static_cast<double>(encode(message).size() + message.frames[0].bytes());
    sends(messages)(self);
  };
  out.seconds = play(cluster, 1, 1, places(2), worker, takes(messages));
  return out;
}

constexpr double chunk_bytes = 4.0 * chunk;

TEST(SimTransport, AnIncastOfGradientsFillsTheMastersLink) {
  constexpr int messages = 200;
  const double seconds =
      play(testing::cpu_machines(9), 8, 1, places(9), sends(messages), takes(8 * messages));
  const double closed_form = 8 * messages * chunk_bytes / 1e9;
  EXPECT_NEAR(seconds, closed_form, 0.01 * closed_form);
}

TEST(SimTransport, MessagesThatQueueUpPayTheirLatencyOnce) {
  sim::ClusterSpec cluster = testing::cpu_machines(2);
  cluster.nic.latency_us = 300;  // a third of a message's time
  constexpr int messages = 50;
  const auto [seconds, bytes] = send(cluster, messages);
  const double latency = (300 + 2 * 1) * 1e-6;
  EXPECT_NEAR(seconds, messages * bytes / 1e9 + latency, 1e-8);
}

TEST(SimTransport, AMessageCostsTheCpuOfBothEnds) {
  sim::ClusterSpec cluster = testing::cpu_machines(2);
  cluster.message = {
      .send_us = 100, .receive_us = 200, .send_us_per_mb = 1000, .receive_us_per_mb = 3000};
  const auto expected = [&](int messages, double bytes) {
    const double send = (100 + 1000 * bytes / 1e6) * 1e-6;
    const double receive = (200 + 3000 * bytes / 1e6) * 1e-6;
    return send + bytes / 1e9 + 7e-6 + messages * receive;  // the receiver's CPU is the limit
  };
  for (const int messages : {1, 20}) {
    const auto [seconds, bytes] = send(cluster, messages);
    EXPECT_NEAR(seconds, expected(messages, bytes), 1e-8) << messages;
  }
}

TEST(SimTransport, OverTheNetworkAMessageCostsWhatTheNetworkCosts) {
  sim::ClusterSpec cluster = testing::cpu_machines(2);
  cluster.message = {
      .send_us = 5000, .receive_us = 5000, .network_us = 100, .network_us_per_mb = 1000};
  const auto [seconds, bytes] = send(cluster, 1);
  const double end = (100 + 1000 * bytes / 1e6) * 1e-6;
  EXPECT_NEAR(seconds, end + bytes / 1e9 + 7e-6 + end, 1e-8);
}

/// Seconds for one message of so many fp32 elements between two ranks of one processor.
double within_a_processor(TransportKind kind, std::int64_t elements) {
  sim::ClusterSpec cluster = testing::cpu_machines(1);
  cluster.message = {.send_us = 100, .receive_us = 200};
  return play(
      cluster, 1, 1, {{0, 0}, {0, 0}},
      [&](SimulatedParty& self) { self.channel.send(0, gradients(self, elements)); },
      [](SimulatedParty& self) { EXPECT_TRUE(self.channel.receive(virtual_patience_s)); }, kind);
}

TEST(SimTransport, ThroughSharedMemoryAHeaderMovesAndNoValue) {
  const double header = 1e-6 + 128 / 10e9;  // the memory's latency, and its bandwidth
  for (const auto kind : {TransportKind::automatic, TransportKind::shm}) {
    EXPECT_NEAR(within_a_processor(kind, 1), 100e-6 + header + 200e-6, 1e-8);
    EXPECT_NEAR(within_a_processor(kind, 1), within_a_processor(kind, chunk), 1e-12);
  }
  EXPECT_NEAR(
      within_a_processor(TransportKind::ipc, chunk) - within_a_processor(TransportKind::ipc, 1),
      (chunk_bytes - 4) / 10e9, 1e-7);
}

/// Every rank has a processor with one core, which sending and computing share. So computing ends
/// later by the core's time for sending.
TEST(SimTransport, TheCpusPartOfAMessageCompetesWithComputing) {
  sim::ClusterSpec cluster = testing::cpu_machines(2);
  cluster.device.cores = 1;
  cluster.message.send_us_per_mb = 10000;
  const auto computing_ends = [&](int messages) {
    double end = 0;
    play(
        cluster, 1, 1, places(2),
        [&](SimulatedParty& self) {
          sends(messages)(self);
          self.world.work({0, 0}, 0.5);
          end = self.world.now();
        },
        takes(messages));
    return end;
  };
  const double sending = 20 * 10000e-6 * (chunk_bytes + 100) / 1e6;
  EXPECT_NEAR(computing_ends(0), 0.5, 1e-6);
  EXPECT_NEAR(computing_ends(20), 0.5 + sending, 0.01);
}

TEST(SimTransport, OfAGpuTheHostsCpuDoesTheWork) {
  sim::ClusterSpec cluster = testing::cpu_machines(1);
  cluster.device.kind = sim::DeviceKind::gpu;
  cluster.device.cores = 1;
  cluster.collective.kind = sim::CollectiveKind::nccl;
  cluster.message.send_us_per_mb = 10000;
  double end = 0;
  const double seconds = play(
      cluster, 1, 1, {{0, 0}, {0, -1}},
      [&](SimulatedParty& self) {
        sends(20)(self);
        self.world.work({0, 0}, 0.1);
        end = self.world.now();
      },
      takes(20));
  EXPECT_NEAR(end, 0.1, 1e-6) << "the device computes on";
  EXPECT_GT(seconds, 20 * 10000e-6 * chunk_bytes / 1e6);
}

TEST(SimTransport, ComputingComesBeforeTheMessagesThatFollowIt) {
  double arrived = 0, computed = 0;
  play(
      testing::cpu_machines(2), 1, 1, places(2),
      [&](SimulatedParty& self) {
        const Tensor x = self.device.tensor({1 << 24}, MemoryKind::gradient);
        self.device.kernels().add({.in = x, .out = x});
        computed = self.device.clock().now();
        EXPECT_EQ(self.world.now(), 0) << "time runs lazily";
        self.channel.send(0, gradients(self, 1));
      },
      [&](SimulatedParty& self) {
        EXPECT_TRUE(self.channel.receive(virtual_patience_s));
        arrived = self.world.now();
      });
  EXPECT_GT(computed, 1e-3);
  EXPECT_GT(arrived, computed);
  EXPECT_LT(arrived, computed + 1e-4);
}

TEST(SimTransport, LastWordsToWhoIsGoneDoNotBlock) {
  for (const int machines : {1, 2}) {
    sim::ClusterSpec cluster = testing::cpu_machines(machines);
    cluster.message = {.send_us = 100, .receive_us = 200};
    play(
        cluster, 1, 1, {{0, 0}, {machines - 1, 0}},
        [](SimulatedParty& self) {
          self.world.sleep(1);
          for (int i = 0; i < high_water_mark; ++i)
            EXPECT_TRUE(self.channel.try_send(0, gradients(self)));
          EXPECT_FALSE(self.channel.try_send(0, gradients(self)));
          EXPECT_NEAR(self.world.now(), 1, 1e-9);
        },
        [](SimulatedParty&) {});
  }
}

TEST(SimTransport, AServerNamesAWorkerThatIsGone) {
  play(testing::cpu_machines(2), 1, 1, places(2), sends(1), [](SimulatedParty& self) {
    ASSERT_TRUE(self.channel.receive(virtual_patience_s));
    self.world.sleep(1);
    try {
      self.channel.send(0, gradients(self));
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "server 0: worker 0 has ended before it received the reply to its push");
    }
  });
}

TEST(SimTransport, WhatWasSentArrivesThoughItsSenderIsGone) {
  play(testing::cpu_machines(2), 1, 1, places(2), sends(5), [](SimulatedParty& self) {
    self.world.sleep(1);
    takes(5)(self);
    EXPECT_FALSE(self.channel.receive(1));
  });
}

TEST(SimTransport, RefusesFramesThatAreTooLarge) {
  play(
      testing::cpu_machines(2), 1, 1, places(2),
      [](SimulatedParty& self) {
        EXPECT_THROW(self.channel.send(0, gradients(self, chunk + 1)), Error);
      },
      [](SimulatedParty&) {});
}

std::string busy_run() {
  sim::ClusterSpec cluster = testing::cpu_machines(4);
  cluster.message = {.send_us = 7, .receive_us = 9, .send_us_per_mb = 61, .receive_us_per_mb = 83};
  constexpr int messages = 60;
  double sum = 0;
  const double seconds = play(
      cluster, 5, 3, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 0}, {1, 0}, {2, 0}, {3, 0}},
      [&](SimulatedParty& self) {
        for (int i = 0; i < messages; ++i)
          self.channel.send(i % 3, gradients(self, 1 + (i * 7919 * (self.id + 1)) % chunk));
      },
      [&](SimulatedParty& self) {
        for (int i = 0; i < 5 * messages / 3; ++i) {
          EXPECT_TRUE(self.channel.receive(virtual_patience_s));
          sum = sum * 0.9 + self.world.now();
        }
      });
  return fmt::format("{:a} {:a}", seconds, sum);
}

/// Matches every text, and keeps the text.
class Keep : public ::testing::MatcherInterface<const std::string&> {
 public:
  explicit Keep(std::string& kept) : kept_(kept) {}
  bool MatchAndExplain(const std::string& text, ::testing::MatchResultListener*) const override {
    kept_ = text;
    return true;
  }
  void DescribeTo(std::ostream* out) const override { *out << "is anything"; }

 private:
  std::string& kept_;
};

/// Each of the two runs has a process of its own, because the simulated clock of a process goes on
/// from one world to the next.
TEST(SimTransportDeathTest, TimesAreTheSameToTheLastBit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string first, second;
  const auto keep = [](std::string& text) {
    return ::testing::Matcher<const std::string&>(new Keep(text));
  };
  EXPECT_EXIT((fmt::print(stderr, "{}", busy_run()), std::exit(0)), ::testing::ExitedWithCode(0),
              keep(first));
  EXPECT_EXIT((fmt::print(stderr, "{}", busy_run()), std::exit(0)), ::testing::ExitedWithCode(0),
              keep(second));
  EXPECT_EQ(first, second);
  EXPECT_NE(first.find("0x1"), std::string::npos) << first;
}

}  // namespace
}  // namespace ringside::ps
