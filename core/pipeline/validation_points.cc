#include "core/pipeline/validation_points.h"

#include <algorithm>
#include <map>

#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

/// Outputs alone are under way before the points.
bool sends_output(const Action& action) { return action.operation == Operation::send_forward; }
bool receives_output(const Action& action) {
  return action.operation == Operation::receive_forward;
}
bool is_of_forward(const Action& action) {
  return action.operation == Operation::forward || sends_output(action) || receives_output(action);
}

const std::vector<Action>& actions_of(const Schedule& schedule, std::size_t rank) {
  return schedule.actions[rank];
}

/// The other rank of an output that is sent or received.
std::size_t partner(const Schedule& schedule, const Action& action) {
  const int other = sends_output(action) ? action.stage + 1 : action.stage - 1;
  return static_cast<std::size_t>(rank_of(schedule, other));
}

using Counts = std::map<std::size_t, std::size_t>;

/// How many outputs the rank sends to each other rank before its point.
Counts sent_before(const Schedule& schedule, std::size_t rank, std::size_t point) {
  Counts out;
  const auto& actions = actions_of(schedule, rank);
  for (std::size_t i = 0; i < point; ++i)
    if (sends_output(actions[i])) ++out[partner(schedule, actions[i])];
  return out;
}

/// For each rank, how many outputs others send to it before their points, by sender.
std::vector<Counts> sent_to_each(const Schedule& schedule, const std::vector<std::size_t>& points) {
  std::vector<Counts> out(points.size());
  for (std::size_t from = 0; from < points.size(); ++from)
    for (const auto& [to, count] : sent_before(schedule, from, points[from])) out[to][from] = count;
  return out;
}

/// The first receive before `point` of an output that is not sent before the sender's point;
/// `point` if there is none.
std::size_t first_unsent(const Schedule& schedule, std::size_t rank, std::size_t point,
                         Counts sent) {
  const auto& actions = actions_of(schedule, rank);
  for (std::size_t i = 0; i < point; ++i)
    if (receives_output(actions[i]) && sent[partner(schedule, actions[i])]-- == 0) return i;
  return point;
}

}  // namespace

std::vector<std::size_t> validation_points(const Schedule& schedule) {
  std::vector<std::size_t> points;
  for (const auto& actions : schedule.actions)
    points.push_back(static_cast<std::size_t>(
        std::find_if_not(actions.begin(), actions.end(), is_of_forward) - actions.begin()));
  for (std::vector<std::size_t> before; before != points;) {
    before = points;
    const std::vector<Counts> sent = sent_to_each(schedule, points);
    for (std::size_t rank = 0; rank < points.size(); ++rank)
      points[rank] = first_unsent(schedule, rank, points[rank], sent[rank]);
  }
  return points;
}

std::vector<Action> receives_of_given_up(const Schedule& schedule,
                                         const std::vector<std::size_t>& points, int rank) {
  const auto own = static_cast<std::size_t>(rank);
  Counts left = sent_to_each(schedule, points)[own];
  std::vector<Action> out;
  const auto& actions = actions_of(schedule, own);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (!receives_output(actions[i])) continue;
    std::size_t& count = left[partner(schedule, actions[i])];
    if (count == 0) continue;
    --count;
    if (i >= points[own]) out.push_back(actions[i]);
  }
  return out;
}

bool begins_before_point(const Schedule& schedule, const std::vector<std::size_t>& points,
                         int stage) {
  const auto rank = static_cast<std::size_t>(rank_of(schedule, stage));
  const auto& actions = actions_of(schedule, rank);
  const auto point = actions.begin() + static_cast<std::ptrdiff_t>(points[rank]);
  return std::any_of(actions.begin(), point, [stage](const Action& action) {
    return action.stage == stage && action.operation == Operation::forward;
  });
}

}  // namespace ringside::pipeline
