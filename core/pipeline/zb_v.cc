// ZB-V (Qi et al. 2024, arXiv:2401.10241, section 6; "Pipeline Parallelism with Controllable
// Memory", arXiv:2405.15362): a rank has two stages, so that the model goes down the ranks and up
// again in a V: the loss is on rank 0, whose backward begins early. With TF = TB = TW, TB the time
// of I, no rank is idle between its first and its last action, and a rank holds 2p micro-batches of
// a stage of half the size: as much as stage 0 of 1F1B.
#include <algorithm>

#include "core/pipeline/action_list.h"

namespace ringside::pipeline {
namespace {

/// The actions of one rank for `micro_batches`, of which the list leaves out those that the step
/// does not have: the pattern needs at least 2p - 1.
class VShape {
 public:
  VShape(ActionList& list, int ranks, int rank, std::int64_t micro_batches)
      : list_(list),
        ranks_(ranks),
        rank_(rank),
        down_(rank),
        up_(2 * ranks - 1 - rank),
        micro_batches_(std::max<std::int64_t>(micro_batches, 2 * ranks - 1)) {}

  void add_all() {
    warm_up();
    while (list_.done(Operation::forward, up_) < micro_batches_) {
      list_.add(Operation::forward, down_);
      add_backward(down_);
      list_.add(Operation::forward, up_);
      add_backward(up_);
    }
    cool_down();
  }

 private:
  void add_backward(int stage) {
    list_.add(Operation::input_gradient, stage);
    list_.add(Operation::weight_gradient, stage);
  }

  /// Forwards until the first micro-batch has come back up, and then none of the way down until the
  /// first gradient has gone down.
  void warm_up() {
    for (int i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) list_.add(Operation::forward, down_);
    for (int i = 0; i < rank_; ++i) {
      list_.add(Operation::forward, up_);
      list_.add(Operation::forward, down_);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) {
      list_.add(Operation::forward, up_);
      add_backward(up_);
    }
  }

  /// Input gradients first, for which other ranks wait, and the weight gradients that are left
  /// last.
  void cool_down() {
    for (int i = 0; i < rank_; ++i) {
      list_.add(Operation::input_gradient, down_);
      list_.add(Operation::input_gradient, up_);
    }
    for (int i = 0; i < ranks_ - rank_; ++i) add_backward(down_);
    for (const int stage : {up_, down_})
      while (list_.done(Operation::weight_gradient, stage) < micro_batches_)
        list_.add(Operation::weight_gradient, stage);
  }

  ActionList& list_;
  int ranks_, rank_;
  int down_, up_;  // the two stages
  std::int64_t micro_batches_;
};

Schedule make_zb_v(int ranks, int chunks, std::int64_t micro_batches) {
  Schedule out = empty_schedule("zb_v", MakerInfo::Chunks::two, ranks, chunks, micro_batches);
  for (int rank = 0; rank < ranks; ++rank) {
    out.ranks_of[static_cast<std::size_t>(2 * ranks - 1 - rank)] = rank;
    ActionList list(micro_batches);
    VShape(list, ranks, rank, micro_batches).add_all();
    out.actions[static_cast<std::size_t>(rank)] = list.take();
  }
  return out;
}

bool is_the_case_of_zb_v(int ranks, std::int64_t micro_batches, double f, double b, double w) {
  return f == b && b == w && micro_batches >= 2 * ranks - 1;
}

/// The last rank begins p - 1 forwards late, and ends as late.
double zb_v_bubble(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  if (!is_the_case_of_zb_v(ranks, micro_batches, f, b, w)) return no_formula;
  return (ranks - 1) * f / (2 * static_cast<double>(micro_batches) * (f + b + w));
}

double zb_v_idle(int ranks, int, std::int64_t micro_batches, double f, double b, double w) {
  return is_the_case_of_zb_v(ranks, micro_batches, f, b, w) ? 0 : no_formula;
}

std::int64_t zb_v_in_flight(int ranks, int, std::int64_t micro_batches, int stage) {
  return std::min<std::int64_t>(micro_batches, 2 * ranks - stage);
}

}  // namespace

MakerInfo zb_v_row() {
  return {"zb_v",
          "ZBVZeroBubble",
          "two stages a rank in a V: no bubble within a rank, the activations of 1f1b",
          MakerInfo::Chunks::two,
          make_zb_v,
          zb_v_bubble,
          zb_v_idle,
          zb_v_in_flight};
}

}  // namespace ringside::pipeline
