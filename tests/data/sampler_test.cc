#include "core/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace ringside {
namespace {

using Samples = std::vector<std::int64_t>;

/// The samples of an epoch in the order in which its global batches take them.
Samples epoch_of(const Sampler& sampler, std::int64_t epoch, std::int64_t global_batch) {
  Samples out;
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step)
    for (std::int64_t j = 0; j < global_batch; ++j)
      out.push_back(sampler.sample(epoch * sampler.steps_per_epoch() + step, j));
  return out;
}

TEST(Sampler, CoversEveryEpochOnceWhenBatchesFit) {
  const Sampler sampler(60, 12, 1);
  for (std::int64_t epoch : {0, 1, 7}) {
    Samples all = epoch_of(sampler, epoch, 12);
    std::sort(all.begin(), all.end());
    Samples expected(60);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST(Sampler, GivesRanksDisjointPartsOfEqualSize) {
  const Sampler sampler(100, 12, 1);
  for (int world : {1, 2, 3, 4, 6, 12}) {
    Samples all;
    for (int rank = 0; rank < world; ++rank) {
      const Samples part = sampler.epoch_of_rank(0, rank, world);
      EXPECT_EQ(part.size(), 96u / static_cast<unsigned>(world));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
    EXPECT_EQ(all.size(), 96u);
  }
}

TEST(Sampler, ConcatenatesTheSlicesOfRanksToTheGlobalBatchAtAnyWorld) {
  const Sampler sampler(50, 12, 4);
  for (int world : {1, 2, 3, 4, 6, 12}) {
    const std::int64_t part = 12 / world;
    Samples all;
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step)
      for (int rank = 0; rank < world; ++rank) {
        const Samples mine = sampler.epoch_of_rank(2, rank, world);
        all.insert(all.end(), mine.begin() + step * part, mine.begin() + (step + 1) * part);
      }
    EXPECT_EQ(all, epoch_of(sampler, 2, 12));
  }
}

// PyTorch's DistributedSampler gives each rank floor(n / world) of n samples with drop_last, else
// ceil(n / world).
TEST(Sampler, HasTheSizesOfDistributedSampler) {
  for (std::int64_t size : {8, 9, 10, 11, 100})
    for (int world : {1, 2, 3, 4, 7}) {
      const Sampler drop(size, world, 1, true, Sampler::Tail::drop);
      const Sampler pad(size, world, 1, true, Sampler::Tail::pad);
      for (int rank = 0; rank < world; ++rank) {
        EXPECT_EQ(drop.epoch_of_rank(0, rank, world).size(),
                  static_cast<std::size_t>(size / world));
        EXPECT_EQ(pad.epoch_of_rank(0, rank, world).size(),
                  static_cast<std::size_t>((size + world - 1) / world));
      }
    }
}

TEST(Sampler, DropsTheLastSamplesOrPadsFromTheBeginning) {
  const Sampler drop(10, 4, 1, false, Sampler::Tail::drop);
  EXPECT_EQ(epoch_of(drop, 0, 4), (Samples{0, 1, 2, 3, 4, 5, 6, 7}));
  const Sampler pad(10, 4, 1, false, Sampler::Tail::pad);
  EXPECT_EQ(epoch_of(pad, 0, 4), (Samples{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1}));
  const Sampler shuffled(10, 4, 1, true, Sampler::Tail::pad);
  const Samples epoch = epoch_of(shuffled, 3, 4);
  EXPECT_EQ(epoch[10], epoch[0]);
  EXPECT_EQ(epoch[11], epoch[1]);
}

TEST(Sampler, PadsSeveralTimesOverWhenABatchIsLargerThanTheData) {
  const Sampler pad(3, 8, 1, false, Sampler::Tail::pad);
  EXPECT_EQ(epoch_of(pad, 0, 8), (Samples{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Sampler, ShufflesDifferentlyByEpochAndSeedAndEquallyTwice) {
  const Sampler sampler(64, 8, 1), again(64, 8, 1), other(64, 8, 2);
  EXPECT_NE(epoch_of(sampler, 0, 8), epoch_of(sampler, 1, 8));
  EXPECT_NE(epoch_of(sampler, 0, 8), epoch_of(other, 0, 8));
  EXPECT_EQ(epoch_of(sampler, 5, 8), epoch_of(again, 5, 8));
  EXPECT_FALSE(std::ranges::is_sorted(epoch_of(sampler, 0, 8)));
}

TEST(Sampler, KeepsTheOrderWhenNotShuffled) {
  const Sampler sampler(6, 2, 1, false);
  EXPECT_EQ(epoch_of(sampler, 0, 2), (Samples{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(epoch_of(sampler, 1, 2), (Samples{0, 1, 2, 3, 4, 5}));
}

TEST(Sampler, RefusesWhatHasNoBatches) {
  EXPECT_THROW(Sampler(0, 1, 1), Error);
  EXPECT_THROW(Sampler(3, 4, 1), Error);
  EXPECT_THROW(Sampler(3, 0, 1), Error);
  EXPECT_THROW(Sampler(100, 12, 1).epoch_of_rank(0, 0, 5), Error);
  EXPECT_THROW(Sampler(100, 12, 1).epoch_of_rank(0, 2, 2), Error);
}

}  // namespace
}  // namespace ringside
