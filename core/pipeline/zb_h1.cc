// ZB-H1 (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.1): 1F1B
// whose backward is split into I and W. Rank r puts off W by r micro-batches, which fills most of
// the time at the end in which 1F1B waits. Bubble (p - 1)(TF + TB - TW), TB the time of I; every
// stage holds p micro-batches until W, as many as stage 0 of 1F1B.
#include <algorithm>

#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

std::vector<Action> actions_of_zb_h1(int ranks, int rank, std::int64_t micro_batches) {
  ActionList list(micro_batches);
  for (int i = 0; i < ranks - 1 - rank; ++i) list.add(Operation::forward, rank);
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    list.add(Operation::forward, rank);
    list.add(Operation::input_gradient, rank);
    if (m >= rank) list.add(Operation::weight_gradient, rank);
  }
  for (int i = 0; i < rank; ++i) list.add(Operation::weight_gradient, rank);
  return list.take();
}

Schedule make_zb_h1(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("zb_h1", MakerInfo::Chunks::one, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank)
    out.actions[static_cast<std::size_t>(rank)] = actions_of_zb_h1(ranks, rank, micro_batches);
  return out;
}

/// The paper's case is m >= p and W no longer than F and I. In general W fills no more of a gap
/// than the gap is long, and fewer than p micro-batches have fewer W's to fill gaps with.
double zb_h1_bubble(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  const auto m = static_cast<double>(micro_batches);
  const double filled = std::min(m - 1, ranks - 1.0) * std::min({w, f, b});
  return ((ranks - 1) * (f + b) - filled) / (m * (f + b + w));
}

double zb_h1_idle(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  if (micro_batches < ranks || w > f || w > b) return no_formula;
  return (ranks - 1) * (f + b - w);
}

std::int64_t zb_h1_in_flight(int ranks, int, std::int64_t micro_batches, int) {
  return std::min<std::int64_t>(micro_batches, ranks);
}

}  // namespace

MakerInfo zb_h1_row() {
  return {"zb_h1",
          "",
          "1f1b with a split backward: a third of the bubble, no more activations",
          MakerInfo::Chunks::one,
          make_zb_h1,
          zb_h1_bubble,
          zb_h1_idle,
          zb_h1_in_flight};
}

}  // namespace ringside::pipeline
