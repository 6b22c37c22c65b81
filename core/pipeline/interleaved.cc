// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2): a rank has v stages
// (chunks), stage s on rank s % p, and takes p micro-batches of one chunk, then of the next. The
// bubble is (p - 1)/(v m) of the compute of a rank; a micro-batch crosses ranks v times as often.
// With one chunk it is 1F1B.
#include <algorithm>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

struct InterleavedSizes {
  std::int64_t ranks, chunks, micro_batches;

  std::int64_t passes() const { return chunks * micro_batches; }  // of a rank, in each direction
  /// Forwards before the first backward, but for the one directly before it. Narayanan's rank sends
  /// the first p micro-batches through all its chunks but the last, and then waits for the way to
  /// the end and back.
  std::int64_t warm_up(std::int64_t rank) const {
    if (chunks == 1) return ranks - 1 - rank;
    return std::min(passes(), 2 * (ranks - 1 - rank) + (chunks - 1) * ranks);
  }
  /// The chunk of the rank's forward number `pass`; that of its backwards is counted from the end.
  std::int64_t chunk(std::int64_t pass) const { return pass / ranks % chunks; }
  int stage(std::int64_t chunk, std::int64_t rank) const {
    return static_cast<int>(chunk * ranks + rank);
  }
  /// How many of the first `passes` forwards are of the chunk.
  std::int64_t forwards_of(std::int64_t chunk, std::int64_t passes) const {
    const std::int64_t round = ranks * chunks;
    return passes / round * ranks +
           std::clamp<std::int64_t>(passes % round - chunk * ranks, 0, ranks);
  }
};

std::vector<Action> actions_of(const InterleavedSizes& sizes, std::int64_t rank) {
  ActionList list(sizes.micro_batches);
  const auto forward = [&](std::int64_t pass) {
    list.add(Operation::forward, sizes.stage(sizes.chunk(pass), rank));
  };
  const std::int64_t ahead = sizes.warm_up(rank), passes = sizes.passes();
  for (std::int64_t pass = 0; pass < std::min(ahead, passes); ++pass) forward(pass);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    if (pass + ahead < passes) forward(pass + ahead);
    list.add(Operation::backward, sizes.stage(sizes.chunks - 1 - sizes.chunk(pass), rank));
  }
  return list.take();
}

Schedule make_interleaved(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out =
      empty_schedule("interleaved", MakerInfo::Chunks::any, ranks, chunks, micro_batches);
  if (chunks > 1 && micro_batches % ranks != 0)
    throw Error(
        "schedule interleaved: {} cannot be divided by {} ranks; a rank takes as many "
        "micro-batches "
        "of one stage after the other as there are ranks",
        counted(micro_batches, "micro-batch", "es"), ranks);
  for (int rank = 0; rank < ranks; ++rank)
    out.actions[static_cast<std::size_t>(rank)] = actions_of({ranks, chunks, micro_batches}, rank);
  return out;
}

double interleaved_bubble(int ranks, int chunks, std::int64_t micro_batches, double, double,
                          double) {
  return static_cast<double>(ranks - 1) / static_cast<double>(chunks * micro_batches);
}

/// Rank 0 begins first and ends last.
double interleaved_idle(int ranks, int, std::int64_t, double f, double b, double w) {
  return (ranks - 1) * (f + b + w);
}

/// A chunk holds the most just before a backward of its first micro-batch of a round.
std::int64_t interleaved_in_flight(int ranks, int chunks, std::int64_t micro_batches, int stage) {
  const InterleavedSizes sizes{ranks, chunks, micro_batches};
  const std::int64_t rank = stage % ranks, chunk = stage / ranks;
  const std::int64_t backwards = (sizes.chunks - 1 - chunk) * sizes.ranks;
  const std::int64_t forwards = std::min(sizes.passes(), sizes.warm_up(rank) + 1 + backwards);
  return std::min(micro_batches, sizes.forwards_of(chunk, forwards));
}

}  // namespace

MakerInfo interleaved_row() {
  return {"interleaved",
          "Interleaved1F1B",
          "1f1b with several stages a rank: a smaller bubble, more sends",
          MakerInfo::Chunks::any,
          make_interleaved,
          interleaved_bubble,
          interleaved_idle,
          interleaved_in_flight};
}

}  // namespace ringside::pipeline
