#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

std::optional<Value> value_between(const Schedule& schedule, int from, int to,
                                   std::int64_t micro_batch) {
  if (from < 0 || to < 0 || from >= schedule.stages() || to >= schedule.stages()) return {};
  return Value{from, to, micro_batch};
}

}  // namespace

std::optional<Value> needed(const Schedule& schedule, const Action& action) {
  const auto& [stage, operation, micro_batch] = action;
  switch (operation) {
    case Operation::forward:
      return value_between(schedule, stage - 1, stage, micro_batch);
    case Operation::backward:
    case Operation::input_gradient:
      return value_between(schedule, stage + 1, stage, micro_batch);
    default:
      return {};
  }
}

std::optional<Value> made(const Schedule& schedule, const Action& action) {
  const auto& [stage, operation, micro_batch] = action;
  switch (operation) {
    case Operation::forward:
      return value_between(schedule, stage, stage + 1, micro_batch);
    case Operation::backward:
    case Operation::input_gradient:
      return value_between(schedule, stage, stage - 1, micro_batch);
    default:
      return {};
  }
}

std::optional<Value> moved(const Schedule& schedule, const Action& action) {
  const auto& [stage, operation, micro_batch] = action;
  switch (operation) {
    case Operation::send_forward:
      return value_between(schedule, stage, stage + 1, micro_batch);
    case Operation::receive_forward:
      return value_between(schedule, stage - 1, stage, micro_batch);
    case Operation::send_backward:
      return value_between(schedule, stage, stage - 1, micro_batch);
    case Operation::receive_backward:
      return value_between(schedule, stage + 1, stage, micro_batch);
    default:
      return {};
  }
}

Action send_of(const Value& value) {
  return {value.from, value.is_forward() ? Operation::send_forward : Operation::send_backward,
          value.micro_batch};
}

Action receive_of(const Value& value) {
  return {value.to, value.is_forward() ? Operation::receive_forward : Operation::receive_backward,
          value.micro_batch};
}

std::size_t number_of(const Schedule& schedule, const Value& value) {
  const auto row = static_cast<std::int64_t>(2 * value.to + (value.is_forward() ? 1 : 0));
  return static_cast<std::size_t>(row * schedule.micro_batches + value.micro_batch);
}

std::size_t number_of_values(const Schedule& schedule) {
  return 2 * static_cast<std::size_t>(schedule.stages()) *
         static_cast<std::size_t>(schedule.micro_batches);
}

}  // namespace ringside::pipeline
