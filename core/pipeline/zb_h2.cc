// ZB-H2 (Qi et al. 2024, arXiv:2401.10241, section 2.2): rank r does 2(p - r) - 1 forwards before
// its first backward and puts off W by 2r micro-batches. Between its first and its last action a
// rank is idle for (p - 1)(TF + TB - 2TW), TB the time of I: not at all if the three are equal.
// Every stage holds 2p - 1 micro-batches until W. As ranks begin one after the other, they end one
// after the other too, which is for nothing unless the next step may begin before all have ended.
#include <algorithm>

#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

std::vector<Action> actions_of_zb_h2(int ranks, int rank, std::int64_t micro_batches) {
  ActionList list(micro_batches);
  for (int i = 0; i < 2 * (ranks - 1 - rank); ++i) list.add(Operation::forward, rank);
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    list.add(Operation::forward, rank);
    list.add(Operation::input_gradient, rank);
    if (m >= 2 * rank) list.add(Operation::weight_gradient, rank);
  }
  for (int i = 0; i < 2 * rank; ++i) list.add(Operation::weight_gradient, rank);
  return list.take();
}

Schedule make_zb_h2(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("zb_h2", MakerInfo::Chunks::one, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank)
    out.actions[static_cast<std::size_t>(rank)] = actions_of_zb_h2(ranks, rank, micro_batches);
  return out;
}

/// The last rank begins (p - 1) TF late. That is the bubble, unless a rank is idle for longer
/// between its actions.
double zb_h2_bubble(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  if (micro_batches < 2 * ranks - 1) return no_formula;
  const double longest = std::max(f, f + b - 2 * std::min({w, f, b}));
  return (ranks - 1) * longest / (static_cast<double>(micro_batches) * (f + b + w));
}

double zb_h2_idle(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  if (micro_batches < 2 * ranks - 1 || w > f || w > b) return no_formula;
  return (ranks - 1) * (f + b - 2 * w);
}

std::int64_t zb_h2_in_flight(int ranks, int, std::int64_t micro_batches, int) {
  return std::min<std::int64_t>(micro_batches, 2 * ranks - 1);
}

}  // namespace

MakerInfo zb_h2_row() {
  return {"zb_h2",
          "",
          "zb_h1 with twice the activations, and no bubble within a rank",
          MakerInfo::Chunks::one,
          make_zb_h2,
          zb_h2_bubble,
          zb_h2_idle,
          zb_h2_in_flight};
}

}  // namespace ringside::pipeline
