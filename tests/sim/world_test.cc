#include "core/sim/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace ringside::sim {
namespace {

constexpr double for_ever = std::numeric_limits<double>::infinity();

ClusterSpec two_machines() {
  ClusterSpec spec;
  spec.name = "test";
  spec.machines = 9;
  spec.devices = 1;
  spec.host.kind = sim::DeviceKind::cpu;
  spec.host.cores = 2;
  spec.pcie = {.gbs = 16, .latency_us = 2};
  spec.nic = {.gbs = 1, .latency_us = 5};
  return spec;
}

Place host(int machine) { return {machine, -1}; }

TEST(World, WorkSharesCores) {
  const auto world = make_world(two_machines());
  for (int i = 0; i < 4; ++i)
    world->spawn("worker", host(0), [&] {
      world->work(host(0), 0.5);
      EXPECT_NEAR(world->now(), 1.0, 1e-9);
    });
  world->spawn("device", {1, 0}, [&] {
    const double begin = world->now();
    const JobPtr work = world->start_work({1, 0}, 0.5);
    world->work({1, 0}, 0.25);
    EXPECT_NEAR(world->now() - begin, 0.5, 1e-9);
    work->wait();
    EXPECT_NEAR(world->now() - begin, 0.75, 1e-9);
  });
  world->run();
}

TEST(World, WorkSharesTheMemoryForTheLastPartOfItsTime) {
  sim::ClusterSpec spec = two_machines();
  spec.device = spec.host;
  spec.device.cores = 3;
  const auto world = make_world(spec);
  const auto spawn = [&](const char* name, double seconds, double memory, double end) {
    world->spawn(name, {0, 0}, [&world, seconds, memory, end] {
      world->work({0, 0}, seconds, 1, memory);
      EXPECT_NEAR(world->now(), end, 1e-9);
    });
  };
  spawn("computes", 1.5, 0, 1.5);
  spawn("copies", 1, 0.5, 1.5);  // both compute for 0.5 s, and need the memory for 0.5 s each
  spawn("adds", 1, 0.5, 1.5);
  world->spawn("is alone", {1, 0}, [&] {
    world->work({1, 0}, 1, 1, 1);
    EXPECT_NEAR(world->now(), 1, 1e-9);
  });
  world->run();
}

TEST(World, EightToOneIncast) {
  const auto world = make_world(two_machines());
  for (int i = 1; i <= 8; ++i)
    world->spawn("sender", host(i), [&, i] {
      world->start_flow(host(i), host(0), 100e6)->wait();
      EXPECT_NEAR(world->now(), 0.8 + 5e-6, 1e-9);
    });
  world->run();
}

TEST(World, ActorsHandleTheirOwnExceptions) {
  const auto world = make_world(two_machines());
  const auto act = [&](double seconds) {
    struct Waits {
      World& world;
      double seconds;
      int before = std::uncaught_exceptions();
      ~Waits() {
        world.sleep(seconds);
        EXPECT_EQ(std::uncaught_exceptions(), before + 1);
      }
    };
    for (int i = 0; i < 3; ++i) try {
        try {
          const Waits waits{*world, seconds};
          throw Error("of {} s", seconds);
        } catch (const Error&) {
          world->sleep(2 * seconds);
          throw;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), fmt::format("of {} s", seconds));
      }
    EXPECT_EQ(std::uncaught_exceptions(), 0);
  };
  for (const double seconds : {0.1, 0.25, 0.7})
    world->spawn("actor", host(0), [&, seconds] { act(seconds); });
  world->run();
}

TEST(World, ActivitiesGoOnWithoutTheirOwner) {
  const auto world = make_world(two_machines());
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

TEST(World, WorkWithoutAWaiterTakesItsShare) {
  const auto world = make_world(two_machines());
  for (int machine = 0; machine < 4; ++machine)
    world->spawn("actor", {machine, 0}, [&, machine] {
      const Place place{machine, 0};
      for (int i = 0; i < 100; ++i) {
        const double begin = world->now();
        world->start_work(place, 0.5);
        world->work(place, 0.5);
        EXPECT_NEAR(world->now() - begin, 1, 1e-9);
        world->sleep(0.1 * machine);
      }
    });
  world->run();
}

TEST(World, EndsWithFlowsAndWorkUnderWay) {
  const auto world = make_world(two_machines());
  std::unique_ptr<Inbox> inbox;
  JobPtr flow;
  world->spawn("actor", host(1), [&] {
    inbox = world->make_inbox(host(1));
    world->start_flow(host(1), host(0), 100e6);
    flow = world->start_flow(host(1), host(0), 100e6);
    world->start_work(host(1), 1);
    world->sleep(1e-3);
    world->post(*inbox, host(2), 100e6, 1);
    world->post(*inbox, host(2), 100e6, 2);
  });
  world->run();
  EXPECT_NEAR(world->now(), 1e-3, 1e-12);
}

TEST(World, InboxGivesWhatArrivesFirst) {
  const auto world = make_world(two_machines());
  std::unique_ptr<Inbox> inbox;
  world->spawn("receiver", host(0), [&] {
    inbox = world->make_inbox(host(0));
    EXPECT_FALSE(inbox->receive(0));
    EXPECT_FALSE(inbox->receive(0.01));
    EXPECT_NEAR(world->now(), 0.01, 1e-12);
    EXPECT_EQ(std::any_cast<int>(*inbox->receive(for_ever)), 2);
    // Flows 1 and 2 share the host's link until flow 2 ends at 0.14. Flow 1 then has 80 MB left.
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
    world->post(*inbox, host(1), 0, 3);  // arrives before message 1, but is received after it
  });
  world->spawn("two", host(2), [&] {
    world->sleep(0.1);
    world->post(*inbox, host(2), 20e6, 2);
  });
  world->run();
}

TEST(World, EventWakesThoseWhoWait) {
  const auto world = make_world(two_machines());
  const std::unique_ptr<Event> event = world->make_event();
  for (int i = 0; i < 2; ++i)
    world->spawn("waiting", host(i), [&] {
      EXPECT_FALSE(event->wait(0));
      EXPECT_FALSE(event->wait(0.5));
      EXPECT_NEAR(world->now(), 0.5, 1e-9);
      EXPECT_TRUE(event->wait(for_ever));
      EXPECT_NEAR(world->now(), 1, 1e-9);
      EXPECT_FALSE(event->wait(0.25));  // earlier notifications do not count
      EXPECT_TRUE(event->wait(10));
      EXPECT_NEAR(world->now(), 2, 1e-9);
    });
  world->spawn("notifying", host(2), [&] {
    world->sleep(1);
    event->notify_all();
    world->sleep(1);
    event->notify_all();
  });
  world->run();
}

TEST(World, FirstErrorIsTheRunsAndTheOthersGoOn) {
  const auto world = make_world(two_machines());
  double end = 0;
  world->spawn("late", host(0), [&] {
    world->sleep(2);
    throw Error("late");
  });
  world->spawn("early", host(1), [&] {
    world->sleep(1);
    throw std::invalid_argument("early");
  });
  world->spawn("good", host(2), [&] {
    world->sleep(3);
    end = world->now();
  });
  world->spawn("for ever", host(3), [&] { world->make_event()->wait(for_ever); });
  try {
    world->run();
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "early");
  }
  EXPECT_NEAR(end, 3, 1e-9);
}

TEST(World, DeadlockNamesTheActors) {
  const auto world = make_world(two_machines());
  int ended = 0;
  struct AtEnd {
    int& ended;
    ~AtEnd() { ++ended; }
  };
  world->spawn("rank 3", host(3), [&] {
    const AtEnd at_end{ended};
    world->sleep(1);
    world->make_event()->wait(for_ever);
  });
  world->spawn("server", host(1), [&] {
    const AtEnd at_end{ended};
    world->make_inbox(host(1))->receive(for_ever);
  });
  world->spawn("served", host(1), [&] { world->sleep(0.5); });
  try {
    world->run();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "simulated world at 1.000000 s: actors wait for ever: 'rank 3' for an event, "
                 "'server' for a message");
  }
  EXPECT_EQ(ended, 2);
}

TEST(World, ServicesEndWithTheLastActor) {
  const auto world = make_world(two_machines());
  const std::unique_ptr<Event> started = world->make_event();
  int turns = 0;
  bool ended = false;
  struct AtEnd {
    bool& ended;
    ~AtEnd() { ended = true; }
  };
  world->spawn(
      "service", host(0),
      [&] {
        const AtEnd at_end{ended};
        while (true) {
          world->sleep(1);
          ++turns;
        }
      },
      true);
  world->spawn("parent", host(1), [&] {
    world->sleep(1.5);
    world->spawn("child", host(2), [&] { world->sleep(1); });
  });
  world->run();
  EXPECT_EQ(turns, 2);
  EXPECT_TRUE(ended);
  EXPECT_NEAR(world->now(), 2.5, 1e-12);
  EXPECT_THROW(world->run(), Error);
}

TEST(World, ErrorsNameWhatIsWrong) {
  const auto world = make_world(two_machines());
  EXPECT_THROW(make_world(two_machines()), Error);
  EXPECT_THROW(world->spawn("nowhere", {9, 0}, [] {}), Error);
  world->spawn("actor", host(0), [&] {
    EXPECT_THROW(world->work(host(0), -1), Error);
    EXPECT_THROW(world->sleep(std::nan("")), Error);
    EXPECT_THROW(world->start_flow(host(0), host(1), for_ever), Error);
    EXPECT_THROW(world->start_flow(host(0), {0, 1}, 1), Error);
  });
  world->run();
  EXPECT_EQ(world->now(), 0);
}

TEST(World, OnesThatFollowStartAtZero) {
  for (int i = 0; i < 3; ++i) {
    const auto world = make_world(two_machines());
    EXPECT_EQ(world->now(), 0);
    world->spawn("actor", host(0), [&] { world->sleep(0.125); });
    world->run();
    EXPECT_NEAR(world->now(), 0.125, 1e-12);
  }
}

TEST(World, AWorldThatNeverRuns) {
  {
    const auto world = make_world(two_machines());
    world->spawn("actor", host(0), [] { FAIL(); });
  }
  const auto world = make_world(two_machines());
  world->run();
}

/// Runs actors that send messages, work and wait for each other, in amounts that give no round
/// times. Returns the time at which the run ends, and a number that depends on the order of the
/// messages.
std::string mixed_run() {
  const auto world = make_world(two_machines());
  constexpr int actors = 9, rounds = 20;
  std::vector<std::unique_ptr<Inbox>> inboxes(actors);
  const std::unique_ptr<Event> round = world->make_event();
  std::size_t order = 0;
  for (int me = 0; me < actors; ++me)
    world->spawn("actor", host(me), [&, me] {
      inboxes[me] = world->make_inbox(host(me));
      world->sleep(1e-3);
      for (int i = 1; i <= rounds; ++i) {
        const JobPtr work = world->start_work(host(me), 1e-3 / (i + me));
        world->post(*inboxes[(me + i) % actors], host(me), 1e6 * me / i, me);
        world->post(*inboxes[(me * i) % actors], host(me), 7e5 / (me + 1), me);
        world->work({me, 0}, 1e-4 * me);
        work->wait();
        world->start_flow({me, 0}, {(me + 1) % actors, 0}, 1e5 * i)->wait();
        while (const auto message = inboxes[me]->receive(1e-4))
          order = order * 31 + static_cast<std::size_t>(std::any_cast<int>(*message));
        if (i % actors == me) round->notify_all();
        round->wait(1e-3);
      }
    });
  world->run();
  return fmt::format("{:a} {}", world->now(), order);
}

// Runs in a process of its own, where SimGrid's clock starts at 0. Another version of SimGrid may
// round times differently, so that this test fails.
TEST(WorldDeathTest, TimesAreTheSameToTheLastBit) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT((fmt::print(stderr, "{}", mixed_run()), std::exit(0)), ::testing::ExitedWithCode(0),
              R"(0x1\.25a0f1eb1540ep-4 13227041400869185472$)");
}

}  // namespace
}  // namespace ringside::sim
