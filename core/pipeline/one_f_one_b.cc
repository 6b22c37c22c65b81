// 1F1B, which is PipeDream-Flush (Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1; first in
// arXiv:2006.09503): after a warm-up every rank alternates between forward and backward. The bubble
// is that of GPipe, (p - 1)/m of the compute of a rank, but stage s holds only p - s micro-batches.
#include <algorithm>

#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

Schedule make_one_f_one_b(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("1f1b", MakerInfo::Chunks::one, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(micro_batches);
    for (int i = 0; i < ranks - 1 - rank; ++i) list.add(Operation::forward, rank);
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      list.add(Operation::forward, rank);
      list.add(Operation::backward, rank);
    }
    out.actions[static_cast<std::size_t>(rank)] = list.take();
  }
  return out;
}

double one_f_one_b_bubble(int ranks, int, std::int64_t micro_batches, double, double, double) {
  return static_cast<double>(ranks - 1) / static_cast<double>(micro_batches);
}

/// Rank 0 begins first and ends last.
double one_f_one_b_idle(int ranks, int, std::int64_t, double f, double b, double w) {
  return (ranks - 1) * (f + b + w);
}

std::int64_t one_f_one_b_in_flight(int ranks, int, std::int64_t micro_batches, int stage) {
  return std::min<std::int64_t>(micro_batches, ranks - stage);
}

}  // namespace

MakerInfo one_f_one_b_row() {
  return {"1f1b",
          "1F1B",
          "one forward, one backward: the bubble of gpipe with fewer activations",
          MakerInfo::Chunks::one,
          make_one_f_one_b,
          one_f_one_b_bubble,
          one_f_one_b_idle,
          one_f_one_b_in_flight};
}

}  // namespace ringside::pipeline
