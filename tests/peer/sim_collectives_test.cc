// Compares the virtual times of collectives with closed forms, and the times of rings that are
// simulated as messages with those of rings that are simulated as flows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/error.h"
#include "peer/comm/sim/representatives.h"
#include "tests/peer/sim_ranks.h"

namespace ringside {
namespace {

using testing::one_pass;
using testing::Rank;
using testing::rings_as_flows;
using testing::rings_as_messages;
using testing::run_simulated;
using testing::Simulated;
using testing::small_cluster;

/// Runs an operation on one rank. The whole array has `bytes` bytes, rounded down where it has to
/// consist of equal parts.
using Operation = std::function<void(const Rank&, std::int64_t bytes)>;

void all_reduce(const Rank& r, std::int64_t bytes) {
  r.comm.all_reduce(r.floats(bytes / 4))->wait();
}
void reduce_scatter(const Rank& r, std::int64_t bytes) {
  const std::int64_t n = bytes / 4 / r.size;
  r.comm.reduce_scatter(r.floats(n * r.size), r.floats(n))->wait();
}
void all_gather(const Rank& r, std::int64_t bytes) {
  const std::int64_t n = bytes / 4 / r.size;
  r.comm.all_gather(r.floats(n), r.floats(n * r.size))->wait();
}
void broadcast(const Rank& r, std::int64_t bytes) {
  r.comm.broadcast(r.floats(bytes / 4), 1)->wait();
}
void all_to_all(const Rank& r, std::int64_t bytes) {
  const std::int64_t n = bytes / 4 / r.size;
  r.comm.all_to_all(r.floats(n * r.size), r.floats(n * r.size))->wait();
}
void barrier(const Rank& r, std::int64_t) { r.comm.barrier(); }

struct Named {
  const char* name;
  Operation run;
};
const Named operations[] = {{"all_reduce", all_reduce}, {"reduce_scatter", reduce_scatter},
                            {"all_gather", all_gather}, {"broadcast", broadcast},
                            {"all_to_all", all_to_all}, {"barrier", barrier}};

/// Worlds of one process share a virtual clock, so equal spans differ in the last bits.
constexpr double rounding = 1e-12;

/// Seconds until the last rank's operation is over.
double seconds(Simulated simulated, int size, const Operation& operation, std::int64_t bytes) {
  simulated.numerics = false;
  simulated.cluster.device.memory_gb = 100;
  return run_simulated(simulated, size, [&](const Rank& r) { operation(r, bytes); });
}

TEST(SimCollectives, ARingOfEightTakesTheClosedForm) {
  const double a = 3 * 1e-6, b = 1 / 10e9, base = 8 * 1e-6;
  const int p = 8;
  for (const auto& make : {rings_as_messages, rings_as_flows})
    for (const std::int64_t bytes : {1 << 10, 1 << 20, 1 << 24, 1 << 30}) {
      const double s = static_cast<double>(bytes);
      const double once = base + (p - 1) * a + (p - 1.0) / p * s * b;
      const auto expect = [&](const Operation& operation, double expected) {
        EXPECT_NEAR(seconds(make(p), p, operation, bytes), expected, 0.01 * expected) << bytes;
      };
      expect(all_reduce, base + 2 * (p - 1) * a + 2 * (p - 1.0) / p * s * b);
      expect(reduce_scatter, once);
      expect(all_gather, once);
      expect(all_to_all, once);
      expect(broadcast, base + (p - 1) * a + s * b);
      expect(barrier, base + 2 * (p - 1) * a);
    }
}

TEST(SimCollectives, ALinkHasACurveBySize) {
  const int p = 4;
  const double a = 3 * 1e-6, b = 1 / 10e9, base = 8 * 1e-6;
  for (const auto& make : {rings_as_messages, rings_as_flows}) {
    Simulated simulated = make(p);
    simulated.cluster.peer.by_mb.points = {{1, 0.25}, {16, 0.75}};
    for (const auto& [mb, share] : {std::pair(0.5, 0.25), {4.0, 0.5}, {64.0, 0.75}}) {
      const auto bytes = static_cast<std::int64_t>(mb * 1e6);
      const double moving = (p - 1.0) / p * mb * 1e6 * b / share;
      EXPECT_NEAR(seconds(simulated, p, all_reduce, bytes), base + 2 * ((p - 1) * a + moving),
                  0.01 * moving);
      EXPECT_NEAR(seconds(simulated, p, all_gather, bytes), base + (p - 1) * a + moving,
                  0.01 * moving);
    }
    // On several machines the NIC's curve takes its place.
    simulated.cluster.devices = 2;
    simulated.cluster.machines = 2;
    const double before = seconds(simulated, p, all_reduce, 4'000'000);
    simulated.cluster.peer.by_mb = {};
    EXPECT_NEAR(seconds(simulated, p, all_reduce, 4'000'000), before, rounding * before);
    simulated.cluster.nic.by_mb.points = {{1, 0.5}};
    EXPECT_GT(seconds(simulated, p, all_reduce, 4'000'000), 1.5 * before);
  }
}

TEST(SimCollectives, AShortQueueOfTheNetworkTakesItsShare) {
  const int p = 4;
  for (const auto& make : {rings_as_messages, rings_as_flows}) {
    Simulated simulated = make(p);
    simulated.cluster.devices = 1;
    simulated.cluster.machines = p;
    simulated.cluster.nic.gbs = 0.1;
    const double before = seconds(simulated, p, all_reduce, 4'000'000);
    simulated.cluster.nic.by_queue.points = {{100, 0.5}, {1000, 1}};
    EXPECT_NEAR(seconds(simulated, p, all_reduce, 4'000'000), before, rounding * before)
        << "nothing is dropped";
    simulated.cluster.nic.queue_kb = 2000;
    EXPECT_NEAR(seconds(simulated, p, all_reduce, 4'000'000), before, rounding * before);
    simulated.cluster.nic.queue_kb = 50;
    EXPECT_NEAR(seconds(simulated, p, all_reduce, 4'000'000), 2 * before, 0.02 * before);
  }
}

struct Wiring {
  const char* name;
  sim::ClusterSpec cluster;
};

std::vector<Wiring> wirings() {
  std::vector<Wiring> out{{"switch", small_cluster(8)}, {"pcie", small_cluster(8)}};
  out[1].cluster.topology = sim::Topology::pcie;
  out[1].cluster.pcie_root_gbs = 20;
  out.push_back({"mesh", small_cluster(4)});
  out.back().cluster.topology = sim::Topology::mesh;
  out.back().cluster.mesh = {{0, 1}, {0, 1}, {1, 2}, {2, 3}, {2, 3}, {0, 3}};
  out.back().cluster.ring = {0, 1, 2, 3};
  for (const std::int64_t nics : {1, 2, 4}) {
    out.push_back({"two machines", small_cluster(4)});
    sim::ClusterSpec& cluster = out.back().cluster;
    cluster.machines = 2;
    cluster.nics = nics;
    cluster.nic = {.gbs = 5, .latency_us = 5, .step_us = 10};
    if (nics == 2) cluster.pcie_root_gbs = 12;
  }
  out.push_back({"network", small_cluster(1)});
  out.back().cluster.machines = 6;
  out.back().cluster.machines_per_switch = 2;
  out.back().cluster.oversubscription = 4;
  return out;
}

TEST(SimCollectives, MessagesAndFlowsAgree) {
  for (Wiring wiring : wirings())
    for (const auto tuning : {sim::CollectiveTuning::rings, sim::CollectiveTuning::by_size}) {
      wiring.cluster.collective.tuning = tuning;
      const auto size = static_cast<int>(wiring.cluster.machines * wiring.cluster.devices);
      for (const Named& operation : operations)
        for (const std::int64_t bytes : {1 << 10, 1 << 15, 1 << 18, 1 << 20, 1 << 25, 1 << 30}) {
          const double messages =
              seconds({wiring.cluster, {.message_ranks = 64}}, size, operation.run, bytes);
          const double flows =
              seconds({wiring.cluster, {.message_ranks = 0}}, size, operation.run, bytes);
          EXPECT_NEAR(messages, flows, 0.03 * flows)
              << operation.name << " of " << bytes << " bytes, " << wiring.name << ", "
              << wiring.cluster.nics << " NICs, " << name_of(tuning);
        }
    }
}

/// Two collectives at once, of which each takes the time that the other leaves.
void two_at_once(const Rank& r, std::int64_t bytes) {
  const auto first = r.comm.all_reduce(r.floats(bytes / 4));
  const auto second = r.comm.all_reduce(r.floats(bytes / 8));
  first->wait();
  second->wait();
}

TEST(SimCollectives, AFewMachinesStandForAll) {
  std::vector<Wiring> many = wirings();
  many.back().cluster.machines_per_switch = 3;
  for (Wiring& wiring : many) wiring.cluster.machines = 12;
  many.push_back(many.back());
  many.back().cluster.devices = 4;  // a leaf's uplink is shared by flows of all its NICs
  many.back().cluster.nics = 4;
  for (const Wiring& wiring : many) {
    const auto size = static_cast<int>(wiring.cluster.machines * wiring.cluster.devices);
    std::vector<Named> all(std::begin(operations), std::end(operations));
    all.push_back({"two at once", two_at_once});
    for (const Named& operation : all)
      for (const std::int64_t bytes : {1 << 15, 1 << 25}) {
        const double every =
            seconds({wiring.cluster, {.message_ranks = 0}}, size, operation.run, bytes);
        const double few = seconds({wiring.cluster, {.message_ranks = 0, .machines = 12}}, size,
                                   operation.run, bytes);
        EXPECT_NEAR(few, every, 1e-9 * every) << operation.name << " of " << bytes << " bytes, "
                                              << wiring.name << ", " << wiring.cluster.nics;
      }
  }
}

TEST(SimCollectives, TheFlowsThatStandForAllDoNotGrowWithTheMachines) {
  const auto flows = [](int machines, std::int64_t known, int left_out, int of_machine = 0) {
    sim::ClusterSpec cluster = small_cluster(2);
    cluster.machines = machines;
    cluster.machines_per_switch = 4;
    std::vector<sim::Place> places;
    for (int r = 0; r < 2 * machines - left_out; ++r) places.push_back({r / 2, r % 2});
    std::vector<peer::Flow> ring;
    for (std::size_t r = 0; r < places.size(); ++r)
      ring.push_back({places[r], places[(r + 1) % places.size()]});
    return peer::representatives(cluster, places, ring, known, of_machine).size();
  };
  // Machines 0, 1, 3 and 4 with the flows to and from their neighbours.
  EXPECT_EQ(flows(8, 8, 0), 10U);
  EXPECT_EQ(flows(64, 64, 0), 10U);
  EXPECT_EQ(flows(64, 65, 0), 128U) << "others may send at the same time";
  EXPECT_EQ(flows(64, 65, 0, 2), 10U) << "nobody else is on these machines";
  EXPECT_EQ(flows(64, 65, 0, 3), 128U);
  EXPECT_EQ(flows(64, 64, 1), 127U) << "one machine has fewer ranks";
  EXPECT_EQ(flows(1, 1, 0), 2U);
}

/// The time that one core needs to read and write `bytes` bytes in all, for a sum or for a copy. A
/// core of one_pass() has a bandwidth of 10 GB/s; sums reach half of it, copies 0.8 of it.
double sum_seconds(double bytes) { return bytes / (10e9 * 0.5); }
double copy_seconds(double bytes) { return bytes / (10e9 * 0.8); }

TEST(SimCollectives, OnePassTakesTheTimeOfTheBytesThatCoresReadAndWrite) {
  constexpr std::int64_t s = 4 << 20;
  const double base = 8 * 1e-6;
  for (const int ranks : {2, 4, 8}) {
    const double cores = std::max(ranks / 4.0, 1.0);  // more than 4 ranks share the 4 cores
    const auto expect = [&](const Operation& operation, double expected) {
      EXPECT_NEAR(seconds(one_pass(), ranks, operation, s), base + expected * cores,
                  1e-9 + 1e-6 * expected);
    };
    expect(all_reduce, sum_seconds(2.0 * s));
    expect(reduce_scatter, sum_seconds(s + 1.0 * s / ranks));
    expect(all_gather, copy_seconds(2.0 * s));
    expect(all_to_all, copy_seconds(2.0 * s));
    expect(barrier, 0);
  }
  EXPECT_NEAR(seconds(one_pass(), 4, broadcast, s), base + copy_seconds(2.0 * s), 1e-9);
}

TEST(SimCollectives, RunBesideComputeAndInTheOrderOfTheirCalls) {
  for (const auto& make : {rings_as_messages, rings_as_flows}) {
    Simulated simulated = make(4);
    simulated.numerics = false;
    run_simulated(simulated, 4, [&](const Rank& r) {
      const Tensor a = r.floats(1 << 20), b = r.floats(1 << 20);
      // A copy moves 8 bytes for each element, at half of 100 GB/s.
      const double compute = 2 * 1e-6 + (1 << 20) * 8 / 50e9;
      const double ring = 8 * 1e-6 + 6 * 3 * 1e-6 + 1.5 * (4 << 20) / 10e9;
      ASSERT_GT(ring, 3 * compute);
      const auto begin = r.device.mark();
      r.device.kernels().copy({.in = a, .out = b});
      const WorkPtr first = r.comm.all_reduce(a);
      const WorkPtr second = r.comm.all_reduce(b);
      for (int i = 0; i < 2; ++i) r.device.kernels().copy({.in = a, .out = b});
      second->wait();
      first->wait();
      EXPECT_NEAR(r.device.seconds(begin, first->span().begin), compute, 1e-8);
      EXPECT_NEAR(r.device.seconds(begin, second->span().begin), compute, 1e-8);
      EXPECT_NEAR(r.device.seconds(begin, first->span().end), compute + ring, 0.01 * ring);
      EXPECT_NEAR(r.device.seconds(begin, second->span().end), compute + 2 * ring, 0.01 * ring);
      EXPECT_NEAR(r.device.seconds(begin, r.device.mark()), compute + 2 * ring, 0.01 * ring);
      // If compute takes longer than the operation, the wait for the operation takes no time.
      const auto again = r.device.mark();
      const WorkPtr third = r.comm.all_reduce(a);
      for (int i = 0; i < 10; ++i) r.device.kernels().copy({.in = a, .out = b});
      const auto computed = r.device.mark();
      third->wait();
      EXPECT_NEAR(r.device.seconds(again, computed), 10 * compute, 1e-8);
      EXPECT_NEAR(r.device.seconds(computed, r.device.mark()), 0, 1e-9);
    });
  }
}

TEST(SimCollectives, WaitForTheLastRank) {
  for (const auto& make : {rings_as_messages, rings_as_flows}) {
    const double ring = 8 * 1e-6 + 6 * 3 * 1e-6 + 1.5 * 4096 / 10e9;
    double last = 0;
    run_simulated(make(4), 4, [&](const Rank& r) {
      world_of(r).sleep(r.rank == 2 ? 0.5 : 0);
      const WorkPtr work = r.comm.all_reduce(r.floats(1024));
      work->wait();
      EXPECT_GT(work->span().end.value, 0.5 + ring / 2);
      last = std::max(last, work->span().end.value);
    });
    EXPECT_NEAR(last, 0.5 + ring, 0.01 * ring);
  }
}

TEST(SimCollectives, MessagesBetweenPairsShareLinks) {
  Simulated simulated = rings_as_messages(4);
  simulated.numerics = false;
  run_simulated(simulated, 4, [&](const Rank& r) {
    // Three ranks send to rank 0, and the port of rank 0 is the limit.
    constexpr std::int64_t count = 25'000'000;
    std::vector<WorkPtr> works;
    if (r.rank > 0)
      works.push_back(r.comm.send(r.floats(count), 0));
    else
      for (const int from : {1, 2, 3}) works.push_back(r.comm.recv(r.floats(count), from));
    for (const auto& work : works) {
      work->wait();
      EXPECT_NEAR(work->span().end.value, 3 * 1e-6 + 0.03, 1e-6);
    }
  });
}

/// Messages on one of the links of a ring slow the ring down. When they have ended, the ring runs
/// at full speed again.
TEST(SimCollectives, ShareLinksWithMessages) {
  for (const auto& make : {rings_as_messages, rings_as_flows}) {
    Simulated simulated = make(8);
    simulated.numerics = false;
    const double end = run_simulated(simulated, 8, [&](const Rank& r) {
      constexpr std::int64_t count =
          35'000'000;  // a message takes 0.014 s, a ring over 10 * count elements 0.245 s
      std::vector<WorkPtr> messages;
      for (int i = 0; i < 10; ++i) {
        if (r.rank == 2) messages.push_back(r.comm.send(r.floats(count), 3));
        if (r.rank == 3) messages.push_back(r.comm.recv(r.floats(count), 2));
      }
      r.comm.all_reduce(r.floats(count * 10))->wait();
      // As long as messages are under way, they get half of the bandwidth of the port.
      for (const auto& message : messages) {
        message->wait();
        EXPECT_LT(message->span().end.value, 2.1 * 0.14);
      }
    });
    EXPECT_NEAR(end, 0.245 + 0.14, 0.01 * 0.385);
  }
}

TEST(SimCollectives, GroupsShareLinks) {
  sim::ClusterSpec cluster = small_cluster(2);
  cluster.machines = 2;  // with one NIC each
  for (const std::int64_t message_ranks : {0, 8})
    run_simulated({cluster, {.message_ranks = message_ranks}, false}, 4, [&](const Rank& r) {
      const auto group = r.comm.split(r.rank % 2, 0);  // one rank of each machine
      constexpr std::int64_t count = 10'000'000;
      const auto begin = r.device.mark();
      group->all_reduce(r.floats(count))->wait();
      EXPECT_NEAR(r.device.seconds(begin, r.device.mark()), 0.08, 0.01 * 0.08);
    });
}

/// Runs operations of all kinds on machines with several NICs, in amounts that give no round times.
/// Returns the time at which the run ends.
std::string mixed_run() {
  sim::ClusterSpec cluster = small_cluster(3);
  cluster.machines = 2;
  cluster.nics = 3;
  std::string text;
  const double end = run_simulated({cluster, {.message_ranks = 8}, false}, 6, [&](const Rank& r) {
    world_of(r).sleep(1e-5 / (r.rank + 3));
    for (const Named& operation : operations) operation.run(r, 100'000);
    const auto group = r.comm.split(r.rank % 2, 0);
    group->all_reduce(r.floats(12345))->wait();
  });
  return fmt::format("{:a}", end);
}

// Runs in a process of its own, where SimGrid's clock starts at 0. Another version of SimGrid may
// round times differently, so that this test fails.
TEST(SimCollectivesDeathTest, TimesAreTheSameToTheLastBit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((fmt::print(stderr, "{}", mixed_run()), std::exit(0)), ::testing::ExitedWithCode(0),
              "0x1\\.73dc05984159p-11$");
}

}  // namespace
}  // namespace ringside
