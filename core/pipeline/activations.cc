#include "core/pipeline/activations.h"

#include <algorithm>

#include "core/base/error.h"

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
  throw Error(
      "schedule {}: stage {} on rank {} holds activations of {} micro-batches at a time, but {} "
      "are allowed (pipeline.most_in_flight, --most-in-flight); allow more, or choose a schedule "
      "that holds fewer",
      schedule.name, stage, schedule.ranks_of[stage], worst->until_weight_gradient, most);
}

double most_activation_bytes(const Schedule& schedule, int rank,
                             const std::vector<ActivationBytes>& stages) {
  double now = 0, most = 0;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    const ActivationBytes& bytes = stages[static_cast<std::size_t>(action.stage)];
    if (action.operation == Operation::forward) now += bytes.before_input_gradient;
    most = std::max(most, now);
    if (action.operation == Operation::backward) now -= bytes.before_input_gradient;
    if (action.operation == Operation::input_gradient)
      now += bytes.before_weight_gradient - bytes.before_input_gradient;
    if (action.operation == Operation::weight_gradient) now -= bytes.before_weight_gradient;
  }
  return most;
}

}  // namespace ringside::pipeline
