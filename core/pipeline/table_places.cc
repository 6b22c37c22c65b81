#include "core/pipeline/table_places.h"

#include <algorithm>

#include "core/pipeline/simulation.h"
#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

constexpr StageTimes equal{.f = 1, .b = 1, .w = 1};
/// What a part has for its way, and what it has at least.
constexpr double on_its_way = equal.f + equal.b + equal.w, at_least = equal.w;

/// The indices of the stage's B or W among the actions of its rank, by micro-batch.
std::vector<std::size_t> gradients_of(const Schedule& schedule, int stage) {
  std::vector<std::size_t> out(static_cast<std::size_t>(schedule.micro_batches));
  const auto& actions = schedule.actions[static_cast<std::size_t>(rank_of(schedule, stage))];
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (actions[i].stage == stage && (actions[i].operation == Operation::backward ||
                                      actions[i].operation == Operation::weight_gradient))
      out[static_cast<std::size_t>(actions[i].micro_batch)] = i;
  return out;
}

/// The index of the first action that computes, from `index` on, and begins at `seconds` or later;
/// the number of actions if there is none.
std::size_t first_begun(const std::vector<Action>& actions, const std::vector<ActionTimes>& times,
                        std::size_t index, double seconds) {
  while (index < actions.size() &&
         (!computes(actions[index].operation) || times[index].begin < seconds))
    ++index;
  return index;
}

/// The index of the last action that computes and comes before `index`; there is one.
std::size_t computed_before(const std::vector<Action>& actions, std::size_t index) {
  while (!computes(actions[--index].operation)) {
  }
  return index;
}

}  // namespace

std::vector<TablePlace> table_places(const Schedule& schedule, const SharedTable& table) {
  const SimulatedSchedule simulated = simulate(schedule, equal_times(schedule, equal));
  const auto rank = static_cast<std::size_t>(rank_of(schedule, table.owner));
  const auto& actions = schedule.actions[rank];
  const auto& times = simulated.actions[rank];
  const auto& readers_times =
      simulated.actions[static_cast<std::size_t>(rank_of(schedule, table.reader))];
  const auto made = gradients_of(schedule, table.reader), own = gradients_of(schedule, table.owner);
  std::vector<TablePlace> out(own.size());
  std::size_t next = actions.size();  // the place of the micro-batch that follows
  for (std::size_t m = own.size(); m-- > 0;) {
    const double made_s = readers_times[made[m]].end;
    const std::size_t wanted = first_begun(actions, times, own[m], made_s + on_its_way);
    const std::size_t earliest = first_begun(actions, times, own[m], made_s + at_least);
    next = std::max(earliest, std::min(wanted, computed_before(actions, next)));
    out[m] = {own[m], next};
  }
  return out;
}

}  // namespace ringside::pipeline
