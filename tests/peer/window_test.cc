// One-sided operations on windows: results, times, and refusals.
#include "core/comm/window.h"

#include <gtest/gtest.h>

#include "peer/comm/checked_communicator.h"
#include "peer/comm/local.h"
#include "tests/peer/sim_ranks.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using namespace testing;

float value_of(int rank, std::int64_t i) { return static_cast<float>(1000 * rank + i); }

/// Every rank reads a piece of every rank's tensor, then writes into and adds to a piece of its own
/// in every tensor. Tensors differ in size.
void read_and_write(const Rank& r) {
  constexpr std::int64_t piece = 3;
  const Tensor own =
      r.floats(piece * r.size + r.rank, [&](std::int64_t i) { return value_of(r.rank, i); });
  const auto window = r.comm.expose(own);
  for (int owner = 0; owner < r.size; ++owner) {
    const Tensor out = r.floats(piece);
    const WorkPtr work = window->get(owner, 2, out);
    work->wait();
    EXPECT_LE(work->span().begin.value, work->span().end.value);
    for (std::int64_t i = 0; i < piece; ++i)
      EXPECT_EQ(r.values(out)[static_cast<std::size_t>(i)], value_of(owner, 2 + i));
  }
  r.comm.barrier();
  const Tensor in = r.floats(piece, [&](std::int64_t i) { return static_cast<float>(i + 1); });
  const Tensor more = r.floats(piece, [&](std::int64_t) { return 0.5f; });
  std::vector<WorkPtr> works;
  for (int owner = 0; owner < r.size; ++owner) {
    works.push_back(window->put(in, owner, piece * r.rank));
    works.push_back(window->add(more, owner, piece * r.rank));
    works.push_back(window->add(more, owner, piece * r.rank));
  }
  for (const WorkPtr& work : works) work->wait();
  r.comm.barrier();
  const auto values = r.values(own);
  for (std::int64_t i = 0; i < piece * r.size; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(i % piece + 2)) << i;
  const std::int64_t others = r.size - 1;
  EXPECT_EQ(window->traffic().received, others * piece * 4);
  EXPECT_EQ(window->traffic().sent, others * 3 * piece * 4);
  const Tensor out = r.floats(piece + 1);
  const std::int64_t of_next = piece * r.size + (r.rank + 1) % r.size;
  EXPECT_EQ(complaint([&] { window->get((r.rank + 1) % r.size, of_next - piece, out); }),
            fmt::format("test: elements [{}, {}) of fp32 are not in the window of rank {}, which "
                        "has {} of fp32",
                        of_next - piece, of_next + 1, (r.rank + 1) % r.size, of_next));
  EXPECT_EQ(complaint([&] { window->put(out, r.size, 0); }),
            fmt::format("test: there is no rank {} in a group of {}", r.size, r.size));
}

TEST(Windows, ReachTheMemoryOfAllRanksOfAHost) {
  for (const int size : {2, 3, 4}) run_ranks(size, read_and_write);
}

TEST(Windows, ReachTheMemoryOfSimulatedRanks) {
  for (const int size : {2, 3, 4}) {
    run_simulated(rings_as_messages(4), size, read_and_write);
    run_simulated(one_pass(), size, read_and_write);
  }
}

TEST(Windows, OfARankAloneAreItsTensor) {
  run_ranks(1, [](const Rank& r) {
    const Tensor own = r.floats(4, [](std::int64_t i) { return static_cast<float>(i); });
    const Tensor two = r.floats(2);
    const auto window = r.comm.expose(own);
    window->get(0, 1, two)->wait();
    window->add(two, 0, 2)->wait();
    window->put(two, 0, 0)->wait();
    EXPECT_EQ(r.values(own), (std::vector<float>{1, 2, 3, 5}));
    EXPECT_EQ(window->traffic().sent + window->traffic().received, 0);
  });
}

/// A read begins with a request: the latency of the way there, then a step of the link, then the
/// bytes.
TEST(Windows, TakeTheTimeOfTheWayAndShareItsLinks) {
  for (const int readers : {1, 3}) {
    run_simulated(rings_as_messages(4), readers + 1, [&](const Rank& r) {
      sim::World& world = sim::sim_device(r.device).world();
      constexpr std::int64_t count = 1 << 20;
      const Tensor own = r.floats(count), out = r.floats(count);
      const auto window = r.comm.expose(own);
      const double begin = world.now();
      if (r.rank > 0) {
        window->get(0, 0, out)->wait();
        const double latency = world.latency({0, 1}, {0, 0});
        const double expected = latency + 3e-6 + readers * (4.0 * count / 10e9);
        EXPECT_NEAR(world.now() - begin, expected, 1e-3 * expected);
        window->put(out, r.rank, 0)->wait();
      }
      r.comm.barrier();
    });
  }
}

TEST(Windows, AreRefusedWhereRanksHaveNoSharedMemory) {
  class Elsewhere : public peer::CheckedCommunicator {
   public:
    Elsewhere() : CheckedCommunicator({"group", 0, 2}) {}
    void barrier() override {}
    std::unique_ptr<Communicator> split(int, int) override { return nullptr; }
    Traffic traffic() const override { return {}; }

   private:
    WorkPtr begin(const peer::Collective&, const Tensor&, const Tensor&) override {
      return nullptr;
    }
    std::uint64_t last_call() const override { return 0; }
    WorkPtr begin_message(const Tensor&, int, bool) override { return nullptr; }
  };
  Elsewhere elsewhere;
  EXPECT_EQ(complaint([&] { elsewhere.expose({}); }),
            "group: ranks of this device cannot read and write each other's memory one-sidedly; "
            "use collectives or messages");
}

}  // namespace
}  // namespace ringside
