// Value: an output or its gradient, which one stage of a pipeline makes for the next.
#pragma once

#include <compare>
#include <optional>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// The output of stage `from` for stage `to` = from + 1, or, on the way back, the gradient that
/// stage `from` makes for the output of stage `to` = from - 1.
struct Value {
  int from = 0, to = 0;
  std::int64_t micro_batch = 0;
  auto operator<=>(const Value&) const = default;
  bool is_forward() const { return from < to; }
};

/// The value that the action needs from another stage, that it makes for one, and that it sends or
/// receives; none if there is none. The stage of the action is one of the schedule.
std::optional<Value> needed(const Schedule& schedule, const Action& action);
std::optional<Value> made(const Schedule& schedule, const Action& action);
std::optional<Value> moved(const Schedule& schedule, const Action& action);

Action send_of(const Value& value);
Action receive_of(const Value& value);
constexpr bool sends(Operation operation) {
  return operation == Operation::send_forward || operation == Operation::send_backward;
}

inline int rank_of(const Schedule& schedule, int stage) {
  return schedule.ranks_of[static_cast<std::size_t>(stage)];
}
/// Whether the value's two stages are on different ranks.
inline bool crosses(const Schedule& schedule, const Value& value) {
  return rank_of(schedule, value.from) != rank_of(schedule, value.to);
}
/// A number of the value, less than number_of_values().
std::size_t number_of(const Schedule& schedule, const Value& value);
std::size_t number_of_values(const Schedule& schedule);

}  // namespace ringside::pipeline
