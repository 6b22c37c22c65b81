#include "peer/comm/collective.h"

#include <gtest/gtest.h>

namespace ringside::peer {
namespace {

TEST(Calls, AgreeOnKindBytesAndRoot) {
  const Collective call{.kind = Collective::Kind::broadcast, .root = 1, .bytes = 64};
  EXPECT_TRUE(agree(call, call));
  EXPECT_FALSE(agree(call, {.kind = Collective::Kind::all_reduce, .root = 1, .bytes = 64}));
  EXPECT_FALSE(agree(call, {.kind = Collective::Kind::broadcast, .root = 0, .bytes = 64}));
  EXPECT_FALSE(agree(call, {.kind = Collective::Kind::broadcast, .root = 1, .bytes = 68}));
  EXPECT_EQ(
      disagreement("ddp", 3, 0, call, 2, {}),
      "ddp: operation 3 is broadcast of 64 bytes from rank 1 on rank 0 and barrier on rank 2; "
      "all ranks must call the same operations in the same order");
}

TEST(Calls, NameRanks) {
  EXPECT_EQ(list_ranks(4, [](int) { return false; }), "");
  EXPECT_EQ(list_ranks(4, [](int r) { return r == 2; }), "rank 2 of 4");
  EXPECT_EQ(list_ranks(4, [](int r) { return r % 2 == 1; }), "ranks 1, 3 of 4");
}

TEST(Calls, OfASplitGroupRanksByColourAndOrderThemByKeyAndRank) {
  const auto split = [](int colour, int key) {
    return Collective{.kind = Collective::Kind::split, .colour = colour, .key = key};
  };
  const std::vector<Collective> calls{split(0, 5), split(1, 0), split(0, 1), split(0, 5)};
  const auto expect = [&](int rank, int number, int size, const char* name) {
    const int colour = calls[static_cast<std::size_t>(rank)].colour;
    const Group group = group_of_colour("all", 7, calls, colour, rank);
    EXPECT_EQ(group.name, name);
    EXPECT_EQ(group.rank, number) << rank;
    EXPECT_EQ(group.size, size) << rank;
  };
  expect(0, 1, 3, "all/7.0");
  expect(1, 0, 1, "all/7.1");
  expect(2, 0, 3, "all/7.0");
  expect(3, 2, 3, "all/7.0");
}

/// The bytes that all ranks of a group of `size` together send in `call`.
std::int64_t sent_by_all(Collective call, int size) {
  std::int64_t sent = 0, received = 0;
  for (int rank = 0; rank < size; ++rank) {
    const Traffic traffic = traffic_of(call, rank, size, sizeof(float));
    sent += traffic.sent;
    received += traffic.received;
  }
  EXPECT_EQ(sent, received);
  return sent;
}

TEST(Calls, CostTheirClosedForms) {
  constexpr int p = 3;
  constexpr std::int64_t S = 4 * 3 * 1000;
  const auto sent = [&](Collective::Kind kind) {
    return sent_by_all({.kind = kind, .root = 1, .bytes = S}, p);
  };
  EXPECT_EQ(sent(Collective::Kind::all_reduce), 2 * (p - 1) * S);
  EXPECT_EQ(sent(Collective::Kind::reduce_scatter), (p - 1) * S);
  EXPECT_EQ(sent(Collective::Kind::all_gather), (p - 1) * S);
  EXPECT_EQ(sent(Collective::Kind::all_to_all), (p - 1) * S);
  EXPECT_EQ(sent(Collective::Kind::broadcast), (p - 1) * S);
  EXPECT_EQ(sent(Collective::Kind::barrier), 0);
}

}  // namespace
}  // namespace ringside::peer
