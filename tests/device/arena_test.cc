#include "core/device/cpu/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>

#include "core/base/error.h"
#include "core/num/random.h"
#include "tests/support/memory_limit.h"

namespace ringside {
namespace {

constexpr std::size_t range = std::size_t{1} << 20;  // of addresses

class ArenaOf : public ::testing::TestWithParam<Arena::Backing> {
 protected:
  Arena arena_{GetParam(), range};
};
INSTANTIATE_TEST_SUITE_P(Backings, ArenaOf,
                         ::testing::Values(Arena::Backing::anonymous, Arena::Backing::memfd),
                         [](const auto& info) {
                           return info.param == Arena::Backing::memfd ? "memfd" : "anonymous";
                         });

TEST_P(ArenaOf, TakesNothingBeforeTheFirstRequest) { EXPECT_EQ(arena_.reached(), 0u); }

TEST_P(ArenaOf, AlignsEveryBlock) {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 1000}) {
    const auto block = arena_.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % Arena::alignment, 0u);
    EXPECT_GE(block.bytes, std::max<std::size_t>(bytes, 1));
    EXPECT_LT(block.bytes, bytes + 2 * Arena::alignment);
  }
}

TEST_P(ArenaOf, ReusesAFreedBlock) {
  const auto first = arena_.allocate(5000);
  const auto guard = arena_.allocate(64);
  arena_.free(first);
  EXPECT_EQ(arena_.allocate(4999).data, first.data);
  arena_.free(guard);
}

TEST_P(ArenaOf, TakesTheSmallestHoleThatFits) {
  const auto large = arena_.allocate(8192);
  const auto guard = arena_.allocate(64);
  const auto small = arena_.allocate(4096);
  const auto end = arena_.allocate(64);
  arena_.free(large);
  arena_.free(small);
  EXPECT_EQ(arena_.allocate(4000).data, small.data);
  EXPECT_EQ(arena_.allocate(4097).data, large.data);
  arena_.free(guard);
  arena_.free(end);
}

TEST_P(ArenaOf, JoinsNeighboursInAnyOrderOfFreeing) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Arena arena(GetParam(), range);
    std::vector<Arena::Block> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(arena.allocate(range / 4));
    for (const int i : order) arena.free(blocks[static_cast<std::size_t>(i)]);
    const auto whole = arena.allocate(range);
    EXPECT_EQ(arena.ranges(), 1u);
    EXPECT_EQ(whole.data, blocks[0].data);
  } while (std::next_permutation(order.begin(), order.end()));
}

/// The pattern of a training step: activations of many layers become one large gradient.
TEST_P(ArenaOf, JoinsWhateverLiesSideBySide) {
  Arena arena(GetParam(), 8 * Arena::growth);
  std::vector<Arena::Block> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(arena.allocate(Arena::growth / 2));
  const auto reached = arena.reached();
  EXPECT_EQ(reached, 3 * Arena::growth);
  for (const auto& block : blocks) arena.free(block);
  const auto large = arena.allocate(3 * Arena::growth);
  EXPECT_EQ(large.data, blocks[0].data);
  EXPECT_EQ(arena.reached(), reached);
  EXPECT_EQ(arena.ranges(), 1u);
  arena.free(large);
}

TEST_P(ArenaOf, ExtendsTheLastBlockIfItIsFree) {
  const auto kept = arena_.allocate(64);
  const auto last = arena_.allocate(1000 * 64);
  arena_.free(last);
  EXPECT_EQ(arena_.allocate(1001 * 64).data, last.data);
  EXPECT_EQ(arena_.reached(), 1002u * 64);
  EXPECT_EQ(arena_.available(), 0u);
  arena_.free(kept);
}

/// Memory that was never handed out lies behind the blocks and fits any request, but its pages
/// would be new ones.
TEST_P(ArenaOf, PrefersFreedBlocksToNewMemory) {
  const auto first = arena_.allocate(range / 2);
  const auto kept = arena_.allocate(64);
  arena_.free(first);
  EXPECT_EQ(arena_.allocate(64).data, first.data);
  EXPECT_EQ(arena_.reached(), range / 2 + 64);
  arena_.free(kept);
}

TEST_P(ArenaOf, NeverJoinsAcrossRanges) {
  std::vector<Arena::Block> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(arena_.allocate(range));
  for (const auto& block : blocks) arena_.free(block);
  EXPECT_EQ(arena_.ranges(), 6u);
  const auto large = arena_.allocate(2 * range);
  EXPECT_EQ(arena_.ranges(), 7u);
  EXPECT_EQ(arena_.reached(), 8 * range);
  std::memset(large.data, 1, large.bytes);
}

TEST_P(ArenaOf, ReservesLessWhereTheSystemRefusesMuch) {
  Arena arena(GetParam(), std::size_t{1} << 60);
  const auto block = arena.allocate(3 * Arena::growth);
  block.data[0] = block.data[block.bytes - 1] = std::byte{1};
  EXPECT_EQ(arena.ranges(), 1u);
  arena.free(block);
}

TEST_P(ArenaOf, AgreesWithAModelUnderRandomUse) {
  struct Live {
    Arena::Block block;
    unsigned char mark;
  };
  std::vector<Live> live;
  std::map<std::byte*, std::size_t> taken;
  std::size_t in_use = 0;
  const auto intact = [](const Live& l) {
    return std::all_of(l.block.data, l.block.data + l.block.bytes,
                       [&](std::byte b) { return b == std::byte{l.mark}; });
  };
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const std::uint64_t bits = random_bits(11, Stream::synthetic_data, i);
    if (live.empty() || (bits & 7) < 4) {
      const std::size_t bytes = (bits >> 8) % ((bits & 64) ? 60000 : 600);
      const auto block = arena_.allocate(bytes);
      const auto next = taken.lower_bound(block.data);
      if (next != taken.end()) {
        ASSERT_LE(block.data + block.bytes, next->first);
      }
      if (next != taken.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, block.data);
      }
      taken[block.data] = block.bytes;
      in_use += block.bytes;
      live.push_back({block, static_cast<unsigned char>(i)});
      std::memset(block.data, live.back().mark, block.bytes);
    } else {
      const std::size_t pick = (bits >> 8) % live.size();
      std::swap(live[pick], live.back());
      ASSERT_TRUE(intact(live.back()));
      taken.erase(live.back().block.data);
      in_use -= live.back().block.bytes;
      arena_.free(live.back().block);
      live.pop_back();
    }
    ASSERT_EQ(arena_.available() + in_use, arena_.reached());
  }
  for (const auto& l : live) {
    ASSERT_TRUE(intact(l));
    arena_.free(l.block);
  }
  EXPECT_EQ(arena_.available(), arena_.reached());
}

// Memory that was touched before costs no page fault when the arena hands it out again.
TEST_P(ArenaOf, ARepeatedStepGetsTheSameMemory) {
  const auto step = [&] {
    std::vector<std::byte*> places;
    std::vector<Arena::Block> blocks;
    for (const std::size_t bytes : {300000, 70000, 500000, 123456, 70000, 900000}) {
      blocks.push_back(arena_.allocate(bytes));
      places.push_back(blocks.back().data);
      if (blocks.size() == 3) {
        arena_.free(blocks[1]);
        blocks.erase(blocks.begin() + 1);
      }
    }
    for (const auto& block : blocks) arena_.free(block);
    return places;
  };
  step();  // the first one grows the arena
  const auto reached = arena_.reached();
  const auto places = step();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(step(), places);
  EXPECT_EQ(arena_.reached(), reached);
}

TEST_P(ArenaOf, ServesManyThreads) {
  std::vector<std::thread> threads;
  std::vector<int> intact(4, 0);
  for (std::size_t t = 0; t < intact.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        const auto bytes = random_bits(t, Stream::synthetic_data, i) % 20000 + 1;
        const auto block = arena_.allocate(bytes);
        const auto mark = static_cast<int>(t) + 1;
        std::memset(block.data, mark, bytes);
        intact[t] += static_cast<int>(block.data[0]) == mark &&
                     static_cast<int>(block.data[bytes - 1]) == mark;
        arena_.free(block);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(intact, std::vector<int>(4, 500));
  EXPECT_EQ(arena_.available(), arena_.reached());
}

TEST_P(ArenaOf, RefusesWhatNoMachineHas) {
  EXPECT_THROW(arena_.allocate(std::size_t{1} << 60), Error);
  EXPECT_THROW(arena_.allocate(~std::size_t{0}), Error);
  EXPECT_EQ(arena_.reached(), 0u);
  EXPECT_NE(arena_.allocate(64).data, nullptr);
}

TEST(SymmetricArena, ItsBlocksAreReadThroughTheProcess) {
  Arena arena(Arena::Backing::memfd, range);
  std::vector<Arena::Block> blocks;
  for (int i = 0; i < 5; ++i) {
    blocks.push_back(arena.allocate(range / 2 - 64));
    std::memset(blocks.back().data, i + 1, blocks.back().bytes);
  }
  EXPECT_GT(arena.ranges(), 1u);
  for (int i = 0; i < 5; ++i) {
    const auto& block = blocks[static_cast<std::size_t>(i)];
    const auto path = fmt::format("/proc/self/fd/{}", block.address.file);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(file, 0);
    char bytes[3] = {};
    const auto last = static_cast<off_t>(block.address.offset + block.bytes - 3);
    EXPECT_EQ(pread(file, bytes, 3, last), 3);
    EXPECT_EQ(bytes[2], i + 1);
    char target[64] = {};
    EXPECT_GT(readlink(path.c_str(), target, sizeof target - 1), 0);
    EXPECT_NE(std::string(target).find(fmt::format("memfd:ringside-{}", getpid())),
              std::string::npos);
    close(file);
  }
}

/// A limit of the size of files (`ulimit -f`) holds for each file.
TEST(SymmetricArena, TakesAnotherFileIfOneMayNotGrow) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{range, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    Arena arena(Arena::Backing::memfd, 4 * range);
    const auto first = arena.allocate(range - 4096), second = arena.allocate(range - 4096);
    EXPECT_NE(first.address.file, second.address.file);
    second.data[second.bytes - 1] = std::byte{1};
    EXPECT_THROW(arena.allocate(2 * range), Error);
    EXPECT_EQ(arena.ranges(), 2u);
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
}

TEST(SymmetricArena, ClosesItsFilesAtTheEnd) {
  int file = -1;
  {
    Arena arena(Arena::Backing::memfd, range);
    file = arena.allocate(64).address.file;
    EXPECT_GE(fcntl(file, F_GETFD), 0);
  }
  EXPECT_EQ(fcntl(file, F_GETFD), -1);
}

TEST(ArenaRange, IsSmallWhereAddressesAreLimited) {
  const testing::MemoryLimit limit(RLIMIT_AS);
  EXPECT_EQ(Arena::usual_range(), Arena::growth);
}

TEST(PrivateArena, HasNoAddressForPeers) {
  Arena arena(Arena::Backing::anonymous, range);
  EXPECT_EQ(arena.allocate(64).address.file, -1);
}

}  // namespace
}  // namespace ringside
