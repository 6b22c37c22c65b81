#include "core/pipeline/time_grid.h"

#include <algorithm>

namespace ringside::pipeline {
namespace {

constexpr double most_slots = 4000;

/// Whether each stage is the second one of its rank, the fourth, and so on.
std::vector<bool> pale_stages(const Schedule& schedule) {
  std::vector<bool> out, next_is_pale(schedule.actions.size());
  for (const int rank : schedule.ranks_of) {
    out.push_back(next_is_pale[static_cast<std::size_t>(rank)]);
    next_is_pale[static_cast<std::size_t>(rank)].flip();
  }
  return out;
}

}  // namespace

TimeGrid::TimeGrid(const Schedule& schedule, const SimulatedSchedule& times)
    : lanes_(schedule.actions.size()) {
  const std::vector<bool> is_pale = pale_stages(schedule);
  double shortest = times.whole_s;
  for (std::size_t rank = 0; rank < lanes_.size(); ++rank)
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i) {
      const Action& action = schedule.actions[rank][i];
      const ActionTimes& at = times.actions[rank][i];
      if (!computes(action.operation) || at.end <= at.begin) continue;
      lanes_[rank].push_back({action, at, 0, 0, is_pale[static_cast<std::size_t>(action.stage)]});
      shortest = std::min(shortest, at.end - at.begin);
    }
  slot_s_ = std::max(shortest, times.whole_s / most_slots);
  slots_ = times.whole_s / slot_s_;
  for (auto& lane : lanes_)
    for (DrawnAction& one : lane) {
      one.begin = one.times.begin / slot_s_;
      one.end = one.times.end / slot_s_;
    }
}

bool TimeGrid::has(Operation operation) const {
  for (const auto& lane : lanes_)
    for (const DrawnAction& one : lane)
      if (one.action.operation == operation) return true;
  return false;
}

bool TimeGrid::has_pale() const {
  for (const auto& lane : lanes_)
    for (const DrawnAction& one : lane)
      if (one.is_pale) return true;
  return false;
}

}  // namespace ringside::pipeline
