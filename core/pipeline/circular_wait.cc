#include "core/pipeline/circular_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

class Progress {
 public:
  explicit Progress(const Schedule& schedule)
      : schedule_(schedule),
        with_sends_(has_sends(schedule)),
        next_(schedule.actions.size()),
        is_there_(number_of_values(schedule)),
        waiter_(number_of_values(schedule), nobody) {}

  std::optional<CircularWait> circle() {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) can_go_on_.push_back(rank);
    while (!can_go_on_.empty()) {
      const int rank = can_go_on_.back();
      can_go_on_.pop_back();
      go_on(rank);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank)
      if (waits(rank)) return circle_from(rank);
    return {};
  }

 private:
  static constexpr int nobody = -1;

  const std::vector<Action>& actions(int rank) const {
    return schedule_.actions[static_cast<std::size_t>(rank)];
  }
  std::size_t& next(int rank) { return next_[static_cast<std::size_t>(rank)]; }
  bool waits(int rank) { return next(rank) < actions(rank).size(); }

  void go_on(int rank) {
    for (; waits(rank); ++next(rank)) {
      const Action& action = actions(rank)[next(rank)];
      if (const auto value = needed(schedule_, action);
          value && !is_there_[number_of(schedule_, *value)]) {
        waiter_[number_of(schedule_, *value)] = rank;
        return;
      }
      give(action);
    }
  }

  /// Values within a rank are there as soon as they are made.
  void give(const Action& action) {
    auto value = made(schedule_, action);
    if (value && with_sends_ && crosses(schedule_, *value)) return;
    if (sends(action.operation)) value = moved(schedule_, action);
    if (!value) return;
    const std::size_t number = number_of(schedule_, *value);
    is_there_[number] = true;
    if (waiter_[number] != nobody) can_go_on_.push_back(waiter_[number]);
  }

  /// Every rank that waits does so for a value of a rank that waits too.
  CircularWait circle_from(int rank) {
    std::vector<int> way;
    while (std::find(way.begin(), way.end(), rank) == way.end()) {
      way.push_back(rank);
      rank = rank_of(schedule_, waited_for(rank).from);
    }
    way.erase(way.begin(), std::find(way.begin(), way.end(), rank));
    CircularWait out{"ranks wait for each other in a circle: ", way.front(), next(way.front())};
    for (const int one : way) {
      const Value value = waited_for(one);
      out.text +=
          fmt::format("{}rank {} waits with {} for rank {}", one == way.front() ? "" : ", ", one,
                      text_of(actions(one)[next(one)]), rank_of(schedule_, value.from));
    }
    return out;
  }
  Value waited_for(int rank) { return *needed(schedule_, actions(rank)[next(rank)]); }

  const Schedule& schedule_;
  bool with_sends_;
  std::vector<std::size_t> next_;  // action of each rank
  std::vector<bool> is_there_;     // each value
  std::vector<int> waiter_;        // the rank that waits for a value
  std::vector<int> can_go_on_{};
};

}  // namespace

std::optional<CircularWait> circular_wait(const Schedule& schedule) {
  return Progress(schedule).circle();
}

}  // namespace ringside::pipeline
