#include "core/sim/world.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "core/base/error.h"

namespace ringside::sim {
namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();

ClusterSpec cluster() {
  ClusterSpec spec;
  spec.name = "test";
  spec.machines = 9;
  spec.devices = 1;
  spec.host.kind = "cpu";
  spec.host.cores = 2;
  spec.pcie = {.gbs = 16, .latency_us = 2};
  spec.nic = {.gbs = 1, .latency_us = 5};
  return spec;
}

Place host(int machine) { return {machine, -1}; }

TEST(World, WorkSharesCores) {
  const auto world = make_world(cluster());
  for (int i = 0; i < 4; ++i)
    world->spawn("worker", host(0), [&] {
      world->work(host(0), 0.5);
      EXPECT_NEAR(world->now(), 1.0, 1e-9);
    });
  world->spawn("device", {1, 0}, [&] {
    const double begin = world->now();
    const ActivityPtr work = world->start_work({1, 0}, 0.5);
    world->work({1, 0}, 0.25);
    EXPECT_NEAR(world->now() - begin, 0.5, 1e-9);
    work->wait();
    EXPECT_NEAR(world->now() - begin, 0.75, 1e-9);
  });
  world->run();
}

TEST(World, EightToOneIncast) {
  const auto world = make_world(cluster());
  for (int i = 1; i <= 8; ++i)
    world->spawn("sender", host(i), [&, i] {
      world->start_flow(host(i), host(0), 100e6)->wait();
      EXPECT_NEAR(world->now(), 0.8 + 5e-6, 1e-8);
    });
  world->run();
}

TEST(World, ActivitiesGoOnWithoutTheirOwner) {
  const auto world = make_world(cluster());
  world->spawn("owner", host(1), [&] {
    world->start_flow(host(1), host(0), 100e6);
    world->start_work(host(1), 0.1);
    world->start_work(host(1), 0.1);
    world->sleep(1);
  });
  world->spawn("flow", host(2), [&] {
    world->start_flow(host(2), host(0), 100e6)->wait();
    EXPECT_NEAR(world->now(), 0.2 + 5e-6, 1e-8);
  });
  world->spawn("work", host(1), [&] {
    world->work(host(1), 0.1);
    EXPECT_NEAR(world->now(), 0.15, 1e-8);
  });
  world->run();
}

TEST(World, InboxGivesWhatArrivesFirst) {
  const auto world = make_world(cluster());
  std::unique_ptr<Inbox> inbox;
  world->spawn("receiver", host(0), [&] {
    inbox = world->make_inbox(host(0));
    EXPECT_FALSE(inbox->receive(0));
    EXPECT_FALSE(inbox->receive(0.01));
    EXPECT_NEAR(world->now(), 0.01, 1e-12);
    EXPECT_EQ(std::any_cast<int>(*inbox->receive(for_ever)), 2);
    // Shared with the first until 0.14, which has 80 MB to go then.
    EXPECT_NEAR(world->now(), 0.14 + 5e-6, 1e-8);
    EXPECT_FALSE(inbox->receive(0.01));
    EXPECT_EQ(std::any_cast<int>(*inbox->receive(1)), 1);
    EXPECT_NEAR(world->now(), 0.22 + 5e-6, 1e-8);
    EXPECT_EQ(std::any_cast<int>(*inbox->receive(0)), 3);
    EXPECT_FALSE(inbox->receive(0));
  });
  world->spawn("one", host(1), [&] {
    world->sleep(0.1);
    world->post(*inbox, host(1), 100e6, 1);
    world->post(*inbox, host(1), 0, 3);  // overtakes, and waits its turn
  });
  world->spawn("two", host(2), [&] {
    world->sleep(0.1);
    world->post(*inbox, host(2), 20e6, 2);
  });
  world->run();
}

}  // namespace
}  // namespace ringside::sim
