// TimeGrid: what both pictures of a schedule have in common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/pipeline/simulation.h"

namespace ringside::pipeline {

/// An action that computes, in slots of time.
struct DrawnAction {
  Action action{};
  ActionTimes times{};
  double begin = 0, end = 0;  // slots since the first rank began
  bool is_pale = false;       // of the second stage of its rank, the fourth, and so on
};

/// Slots are as long as the shortest action, so that every action gets room for its name, but not
/// shorter than a part of the step.
class TimeGrid {
 public:
  TimeGrid(const Schedule& schedule, const SimulatedSchedule& times);

  double slot_s() const { return slot_s_; }
  double slots() const { return slots_; }  // of the whole step
  /// The actions of each rank, in their order.
  const std::vector<std::vector<DrawnAction>>& lanes() const { return lanes_; }
  bool has(Operation operation) const;
  bool has_pale() const;

 private:
  double slot_s_ = 1, slots_ = 0;
  std::vector<std::vector<DrawnAction>> lanes_;
};

struct OperationMeaning {
  Operation operation;
  std::string_view meaning;
};
/// The operations that pictures have, for their legends.
inline constexpr OperationMeaning drawn_operations[] = {
    {Operation::forward, "forward"},
    {Operation::backward, "backward"},
    {Operation::input_gradient, "backward: input gradient"},
    {Operation::weight_gradient, "backward: weight gradient"}};
inline constexpr std::string_view pale_meaning = "a rank's second stage";

}  // namespace ringside::pipeline
