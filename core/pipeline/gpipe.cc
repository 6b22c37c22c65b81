// GPipe (Huang et al. 2019, arXiv:1811.06965, section 2.3): forward of all micro-batches, then
// backward of all. The bubble is (p - 1)/m of the compute of a rank, and every stage holds all m
// micro-batches. Backward goes in ascending order, so that gradients add up as in other schedules.
#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

Schedule make_gpipe(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("gpipe", MakerInfo::Chunks::one, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(micro_batches);
    for (std::int64_t m = 0; m < micro_batches; ++m) list.add(Operation::forward, rank);
    for (std::int64_t m = 0; m < micro_batches; ++m) list.add(Operation::backward, rank);
    out.actions[static_cast<std::size_t>(rank)] = list.take();
  }
  return out;
}

double gpipe_bubble(int ranks, int, std::int64_t micro_batches, double, double, double) {
  return static_cast<double>(ranks - 1) / static_cast<double>(micro_batches);
}

/// Rank 0 begins first and ends last.
double gpipe_idle(int ranks, int, std::int64_t, double f, double b, double w) {
  return (ranks - 1) * (f + b + w);
}

std::int64_t gpipe_in_flight(int, int, std::int64_t micro_batches, int) { return micro_batches; }

}  // namespace

MakerInfo gpipe_row() {
  return {"gpipe",
          "GPipe",
          "forward of all micro-batches, then backward of all",
          MakerInfo::Chunks::one,
          make_gpipe,
          gpipe_bubble,
          gpipe_idle,
          gpipe_in_flight};
}

}  // namespace ringside::pipeline
