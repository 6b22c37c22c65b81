#include "core/pipeline/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/pipeline/values.h"

namespace ringside::pipeline {

std::vector<int> Schedule::stages_of(int rank) const {
  std::vector<int> out;
  for (int stage = 0; stage < stages(); ++stage)
    if (ranks_of[static_cast<std::size_t>(stage)] == rank) out.push_back(stage);
  return out;
}

std::string text_of(const Action& action) {
  return fmt::format("{}{}{}", action.stage, name_of(action.operation), action.micro_batch);
}

bool has_sends(const Schedule& schedule) {
  for (const auto& actions : schedule.actions)
    for (const Action& action : actions)
      if (!computes(action.operation)) return true;
  return false;
}

namespace {

/// A receive, and the action of its rank before which it stands.
struct PlacedReceive {
  Action action{};
  std::size_t before = 0;
};

class SendInsertion {
 public:
  explicit SendInsertion(const Schedule& schedule)
      : schedule_(schedule), receives_(schedule.actions.size()) {}

  std::vector<std::vector<Action>> result() {
    find_places();
    for (int rank = 0; rank < schedule_.ranks(); ++rank) order_receives_from(rank);
    std::vector<std::vector<Action>> out;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) out.push_back(actions_of(rank));
    return out;
  }

 private:
  const std::vector<Action>& computed_by(int rank) const {
    return schedule_.actions[static_cast<std::size_t>(rank)];
  }

  /// A value is received before the action that comes before its user.
  void find_places() {
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      for (std::size_t i = 0; i < computed_by(rank).size(); ++i) {
        const auto value = needed(schedule_, computed_by(rank)[i]);
        if (value && crosses(schedule_, *value)) places_[*value] = i == 0 ? 0 : i - 1;
      }
  }

  /// A receive moves forward to the next one of the same sender, if it would be behind it.
  void order_receives_from(int sender) {
    std::map<int, std::vector<PlacedReceive>> by_receiver;
    for (const Action& action : computed_by(sender)) {
      const auto value = made(schedule_, action);
      if (!value || !crosses(schedule_, *value)) continue;
      const auto place = places_.find(*value);
      if (place != places_.end())
        by_receiver[rank_of(schedule_, value->to)].push_back({receive_of(*value), place->second});
    }
    for (auto& [receiver, receives] : by_receiver) {
      for (std::size_t i = receives.size(); i-- > 1;)
        receives[i - 1].before = std::min(receives[i - 1].before, receives[i].before);
      auto& all = receives_[static_cast<std::size_t>(receiver)];
      all.insert(all.end(), receives.begin(), receives.end());
    }
  }

  std::vector<Action> actions_of(int rank) {
    auto& receives = receives_[static_cast<std::size_t>(rank)];
    std::stable_sort(receives.begin(), receives.end(),
                     [](const auto& a, const auto& b) { return a.before < b.before; });
    std::vector<Action> out;
    auto next = receives.begin();
    for (std::size_t i = 0; i < computed_by(rank).size(); ++i) {
      for (; next != receives.end() && next->before == i; ++next) out.push_back(next->action);
      const Action& action = computed_by(rank)[i];
      out.push_back(action);
      const auto value = made(schedule_, action);
      if (value && crosses(schedule_, *value)) out.push_back(send_of(*value));
    }
    return out;
  }

  const Schedule& schedule_;
  std::map<Value, std::size_t> places_{};  // of receives
  std::vector<std::vector<PlacedReceive>> receives_;
};

}  // namespace

Schedule with_sends(Schedule schedule) {
  if (has_sends(schedule)) return schedule;
  schedule.actions = SendInsertion(schedule).result();
  return schedule;
}

}  // namespace ringside::pipeline
