#include "core/pipeline/simulation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/pipeline/values.h"

namespace ringside::pipeline {
namespace {

constexpr ActionPlace the_begin{};

/// A moment, and the action that computes whose end it is.
struct Moment {
  double at = 0;
  ActionPlace cause = the_begin;
};

const Moment& later(const Moment& a, const Moment& b) { return a.at < b.at ? b : a; }

/// One end of a transfer: the rank has come to the send or receive.
struct TransferEnd {
  Moment ready{};
  ActionPlace action = the_begin;  // none in a schedule without sends
};

/// The way from one rank to another. Its transfers go in the order of sends.
struct Way {
  std::vector<std::pair<Value, TransferEnd>> sends{};
  std::vector<TransferEnd> receives{};
  std::size_t carried = 0;
  Moment is_free{};
};

class ScheduleRun {
 public:
  ScheduleRun(const Schedule& schedule, const ScheduleTimes& times)
      : schedule_(schedule),
        times_(times),
        with_sends_(has_sends(schedule)),
        ranks_(schedule.actions.size()),
        arrivals_(number_of_values(schedule)) {
    for (const auto& actions : schedule.actions) {
      out_.actions.emplace_back(actions.size());
      causes_.emplace_back(actions.size());
    }
  }

  SimulatedSchedule result() {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) can_go_on_.push_back(rank);
    while (!can_go_on_.empty()) {
      const int rank = can_go_on_.back();
      can_go_on_.pop_back();
      go_on(rank);
    }
    for (int rank = 0; rank < schedule_.ranks(); ++rank) out_.ranks.push_back(times_of(rank));
    trace_back();
    return std::move(out_);
  }

 private:
  struct Rank {
    std::size_t next = 0;
    Moment now{};
  };
  struct Arrival {
    Moment moment{};
    bool is_known = false;
    int waiter = -1;  // a rank
  };

  const std::vector<Action>& actions(int rank) const {
    return schedule_.actions[static_cast<std::size_t>(rank)];
  }
  Arrival& arrival(const Value& value) { return arrivals_[number_of(schedule_, value)]; }
  ActionTimes& times_at(const ActionPlace& place) {
    return out_.actions[static_cast<std::size_t>(place.rank)][place.index];
  }
  ActionPlace& cause_of(const ActionPlace& place) {
    return causes_[static_cast<std::size_t>(place.rank)][place.index];
  }

  double seconds_of(const Action& action) const {
    const StageTimes& stage = times_.stages[static_cast<std::size_t>(action.stage)];
    switch (action.operation) {
      case Operation::forward:
        return stage.f;
      case Operation::backward:
        return stage.b + stage.w;
      case Operation::input_gradient:
        return stage.b;
      default:
        return stage.w;
    }
  }

  // ---- one rank

  void go_on(int rank) {
    Rank& state = ranks_[static_cast<std::size_t>(rank)];
    for (; state.next < actions(rank).size(); ++state.next) {
      const Action& action = actions(rank)[state.next];
      if (!computes(action.operation)) {
        move(action, {state.now, {rank, state.next}});
      } else if (!compute(action, {rank, state.next}, state.now)) {
        return;
      }
    }
  }

  /// False if the value that the action needs has not come yet.
  bool compute(const Action& action, const ActionPlace& place, Moment& now) {
    Moment begin = now;
    if (const auto value = needed(schedule_, action); value && crosses(schedule_, *value)) {
      if (!arrival(*value).is_known) {
        arrival(*value).waiter = place.rank;
        return false;
      }
      begin = later(now, arrival(*value).moment);
    }
    cause_of(place) = begin.cause;
    now = {begin.at + seconds_of(action), place};
    times_at(place) = {begin.at, now.at};
    if (const auto value = made(schedule_, action);
        !with_sends_ && value && crosses(schedule_, *value))
      send(*value, {now, the_begin});
    return true;
  }

  // ---- transfers

  Way& way_of(const Value& value) {
    return ways_[{rank_of(schedule_, value.from), rank_of(schedule_, value.to)}];
  }

  void move(const Action& action, const TransferEnd& end) {
    const Value value = *moved(schedule_, action);
    if (sends(action.operation)) {
      send(value, end);
    } else {
      way_of(value).receives.push_back(end);
      carry(way_of(value));
    }
  }

  void send(const Value& value, const TransferEnd& end) {
    Way& way = way_of(value);
    way.sends.emplace_back(value, end);
    if (!with_sends_) way.receives.emplace_back();
    carry(way);
  }

  /// All transfers of which both ends are known.
  void carry(Way& way) {
    for (; way.carried < std::min(way.sends.size(), way.receives.size()); ++way.carried) {
      const auto& [value, from] = way.sends[way.carried];
      const TransferEnd& to = way.receives[way.carried];
      const Moment begin = later(later(from.ready, to.ready), way.is_free);
      way.is_free = {begin.at + times_.send_s, begin.cause};
      const Moment there{way.is_free.at + times_.latency_s, begin.cause};
      if (with_sends_) {
        times_at(from.action) = {from.ready.at, way.is_free.at};
        times_at(to.action) = {to.ready.at, there.at};
      }
      arrive(value, there);
    }
  }

  void arrive(const Value& value, const Moment& moment) {
    Arrival& one = arrival(value);
    one.moment = moment;
    one.is_known = true;
    if (one.waiter >= 0) can_go_on_.push_back(one.waiter);
  }

  // ---- all ranks

  RankTimes times_of(int rank) const {
    const auto& times = out_.actions[static_cast<std::size_t>(rank)];
    RankTimes out;
    bool is_first = true;
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!computes(actions(rank)[i].operation)) continue;
      if (std::exchange(is_first, false)) out.begin = times[i].begin;
      out.end = times[i].end;
      out.busy += seconds_of(actions(rank)[i]);
    }
    return out;
  }

  void trace_back() {
    Moment last;
    for (const Rank& rank : ranks_) last = later(last, rank.now);
    out_.whole_s = last.at;
    for (ActionPlace at = last.cause; at != the_begin; at = cause_of(at)) {
      out_.critical_path.push_back(at);
      out_.critical_compute_s += seconds_of(actions(at.rank)[at.index]);
    }
    std::reverse(out_.critical_path.begin(), out_.critical_path.end());
  }

  const Schedule& schedule_;
  const ScheduleTimes& times_;
  bool with_sends_;
  std::vector<Rank> ranks_;
  std::vector<Arrival> arrivals_;  // of values between ranks
  std::map<std::pair<int, int>, Way> ways_{};
  std::vector<std::vector<ActionPlace>> causes_{};  // of each action: why it did not begin earlier
  std::vector<int> can_go_on_{};
  SimulatedSchedule out_{};
};

}  // namespace

ScheduleTimes equal_times(const Schedule& schedule, const StageTimes& times, double send_s,
                          double latency_s) {
  return {std::vector<StageTimes>(static_cast<std::size_t>(schedule.stages()), times), send_s,
          latency_s};
}

double SimulatedSchedule::bubble() const {
  double longest = 0;
  for (const RankTimes& rank : ranks) longest = std::max(longest, rank.busy);
  return (whole_s - longest) / longest;
}

double SimulatedSchedule::idle() const {
  double longest = 0;
  for (const RankTimes& rank : ranks) longest = std::max(longest, rank.idle());
  return longest;
}

SimulatedSchedule simulate(const Schedule& schedule, const ScheduleTimes& times) {
  return ScheduleRun(schedule, times).result();
}

}  // namespace ringside::pipeline
