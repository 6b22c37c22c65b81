// ActionList: the actions of one rank while a schedule is made.
#pragma once

#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/pipeline/makers.h"

namespace ringside::pipeline {

/// A rank does each operation of a stage for one micro-batch after the other, so a list only says
/// what comes next. What lies behind the last micro-batch is left out.
class ActionList {
 public:
  explicit ActionList(std::int64_t micro_batches) : micro_batches_(micro_batches) {}

  /// The operation for the next micro-batch of the stage.
  void add(Operation operation, int stage) {
    const std::int64_t micro_batch = done_[{operation, stage}]++;
    if (micro_batch < micro_batches_) actions_.push_back({stage, operation, micro_batch});
  }
  /// How often add() was called.
  std::int64_t done(Operation operation, int stage) { return done_[{operation, stage}]; }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  std::int64_t micro_batches_;
  std::map<std::pair<Operation, int>, std::int64_t> done_{};
  std::vector<Action> actions_{};
};

/// A schedule without actions, with as many empty lists as ranks; stage s on rank s % ranks. Throws
/// Error for numbers that schedule `name` does not allow, or that make more than most_actions.
Schedule empty_schedule(std::string_view name, MakerInfo::Chunks allowed, int ranks, int chunks,
                        std::int64_t micro_batches);

/// What a formula returns where the paper has none.
inline constexpr double no_formula = std::numeric_limits<double>::quiet_NaN();

}  // namespace ringside::pipeline
