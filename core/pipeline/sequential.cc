// No pipelining: one micro-batch goes through all stages and back before the next one begins, as in
// a model whose layers merely lie on several devices. One rank computes at a time, and the bubble
// is p - 1 times the compute of a rank.
#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

Schedule make_sequential(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("sequential", MakerInfo::Chunks::one, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(micro_batches);
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      list.add(Operation::forward, rank);
      list.add(Operation::backward, rank);
    }
    out.actions[static_cast<std::size_t>(rank)] = list.take();
  }
  return out;
}

double sequential_bubble(int ranks, int, std::int64_t, double, double, double) { return ranks - 1; }

/// Rank 0 begins first and ends last.
double sequential_idle(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  return static_cast<double>(ranks - 1) * static_cast<double>(micro_batches) * (f + b + w);
}

std::int64_t sequential_in_flight(int, int, std::int64_t, int) { return 1; }

}  // namespace

MakerInfo sequential_row() {
  return {"sequential",
          "",
          "one micro-batch after the other through all stages",
          MakerInfo::Chunks::one,
          make_sequential,
          sequential_bubble,
          sequential_idle,
          sequential_in_flight};
}

}  // namespace ringside::pipeline
