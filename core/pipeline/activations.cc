#include "core/pipeline/activations.h"

#include <algorithm>

#include "core/base/counted.h"

namespace ringside::pipeline {
namespace {

/// What the stages of a rank hold between two actions.
struct HeldNow {
  std::int64_t whole = 0, for_weights = 0;

  void begin(Operation operation) { whole += operation == Operation::forward; }
  void end(Operation operation) {
    whole -= operation == Operation::backward || operation == Operation::input_gradient;
    for_weights += operation == Operation::input_gradient;
    for_weights -= operation == Operation::weight_gradient;
  }
};

/// The bytes of a micro-batch around an action on it.
struct HeldBytes {
  double before = 0, during = 0, after = 0;
};

HeldBytes held_bytes(Operation operation, const ActivationBytes& bytes) {
  switch (operation) {
    case Operation::forward:
      return {0, bytes.in_forward, bytes.before_input_gradient};
    case Operation::backward:
      return {bytes.before_input_gradient, bytes.in_backward, 0};
    case Operation::input_gradient:
      return {bytes.before_input_gradient, bytes.in_input_gradient, bytes.before_weight_gradient};
    case Operation::weight_gradient:
      return {bytes.before_weight_gradient, bytes.in_weight_gradient, 0};
    default:
      return {};  // what moves between ranks is no activation of the schedule
  }
}

}  // namespace

std::vector<HeldMicroBatches> held_micro_batches(const Schedule& schedule) {
  std::vector<HeldMicroBatches> out(static_cast<std::size_t>(schedule.stages()));
  std::vector<HeldNow> now(out.size());
  for (const auto& actions : schedule.actions)
    for (const Action& action : actions) {
      const auto stage = static_cast<std::size_t>(action.stage);
      HeldMicroBatches& most = out[stage];
      HeldNow& held = now[stage];
      held.begin(action.operation);
      most.until_input_gradient = std::max(most.until_input_gradient, held.whole);
      most.until_weight_gradient =
          std::max(most.until_weight_gradient, held.whole + held.for_weights);
      held.end(action.operation);
    }
  return out;
}

void check_held(const Schedule& schedule, std::int64_t most) {
  if (most == 0) return;
  const std::vector<HeldMicroBatches> held = held_micro_batches(schedule);
  const auto worst = std::ranges::max_element(held, {}, &HeldMicroBatches::until_weight_gradient);
  if (worst->until_weight_gradient <= most) return;
  const auto stage = static_cast<std::size_t>(worst - held.begin());
  throw WrongSchedule(
      schedule.name,
      fmt::format("stage {} on rank {} holds activations of {} at a time, but {} {} allowed "
                  "(pipeline.most_in_flight, --most-in-flight)",
                  stage, schedule.ranks_of[stage],
                  counted(worst->until_weight_gradient, "micro-batch", "es"), most,
                  most == 1 ? "is" : "are"),
      "allow more, or choose a schedule that holds fewer", schedule.ranks_of[stage]);
}

double most_activation_bytes(const Schedule& schedule, int rank,
                             const std::vector<ActivationBytes>& stages) {
  double held = 0, most = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    const HeldBytes of =
        held_bytes(action.operation, stages[static_cast<std::size_t>(action.stage)]);
    most = std::max({most, held, held - of.before + of.during});
    held += of.after - of.before;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace ringside::pipeline
