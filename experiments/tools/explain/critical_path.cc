#include "experiments/tools/explain/critical_path.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace ringside::tools::explain {
namespace {

constexpr double nothing_ms = 1e-6;
const std::string communication{name_of(Activity::communication)};

class Walk {
 public:
  Walk(const TracedRun& run, const Collectives& collectives, double step_ms)
      : run_(run), collectives_(collectives) {
    std::size_t steps = run.workers.empty() ? 0 : run.workers.front().steps.size();
    for (const TracedWorker& one : run.workers) steps = std::min(steps, one.steps.size());
    double best = std::numeric_limits<double>::max();
    for (std::size_t from_last = 0; from_last < steps; ++from_last) {
      double longest = 0;
      for (const TracedWorker& one : run.workers) {
        const TracedStep& step = one.steps[one.steps.size() - 1 - from_last];
        longest = std::max(longest, step.end_ms - step.begin_ms);
      }
      if (std::abs(longest - step_ms) >= best) continue;
      best = std::abs(longest - step_ms);
      from_last_ = from_last;
    }
    if (steps == 0) return;
    for (const TracedWorker& one : run.workers)
      if (!worker_ || step_of(one).end_ms > at_ms_) {
        worker_ = &one;
        at_ms_ = step_of(one).end_ms;
      }
  }

  std::vector<PathPart> back() {
    // No slice is passed twice; the limit only guards against traces that contradict themselves.
    std::size_t left = 1;
    for (const TracedWorker& one : run_.workers)
      for (const TracedStep& step : one.steps) left += 2 * step.main.size();
    while (worker_ && left-- > 0 && go_back()) {
    }
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  const TracedStep& step_of(const TracedWorker& worker) const {
    return worker.steps[worker.steps.size() - 1 - from_last_];
  }

  void add(const std::string& activity, const std::string& name, double from_ms) {
    if (at_ms_ - from_ms > nothing_ms)
      path_.push_back({worker_->rank, activity, name, at_ms_ - from_ms});
    at_ms_ = std::min(at_ms_, from_ms);
  }

  /// Goes back by one slice; false at the begin of the step.
  bool go_back() {
    const std::vector<TraceSlice>& main = step_of(*worker_).main;
    const auto after = std::find_if(main.begin(), main.end(), [&](const TraceSlice& slice) {
      return slice.begin_ms >= at_ms_ - nothing_ms;
    });
    if (after == main.begin()) return false;
    const TraceSlice& slice = *(after - 1);
    if (slice.end_ms < at_ms_) add("nothing", "", slice.end_ms);
    if (slice.activity != Activity::exposed) {
      add(std::string(name_of(slice.activity)), slice.name, slice.begin_ms);
      return true;
    }
    go_through(slice);
    return true;
  }

  /// Goes back through the communication that ended a wait to the rank that came last to it:
  /// through operations before a collective in the queue, or to the other end of a message between
  /// stages. Without a trace of these goes back to the begin of the wait.
  void go_through(const TraceSlice& wait) {
    const TraceSlice* moved = awaited_by(*worker_, wait);
    std::optional<LastToCome> last =
        moved ? collectives_.last(moved->name, worker_->rank, moved->begin_ms)
              : collectives_.last(wait.name, worker_->rank, wait.begin_ms);
    if (!last && moved) return go_along(*moved, wait);
    if (!last) return add(communication, awaited_name(wait), wait.begin_ms);
    while (const TraceSlice* before = moved ? made_room_for(*moved, last->at_ms) : nullptr) {
      const auto last_before = collectives_.last(before->name, worker_->rank, before->begin_ms);
      if (!last_before) break;
      add(communication, moved->name, before->end_ms);
      moved = before;
      last = last_before;
    }
    add(communication, awaited_name(moved ? *moved : wait), last->at_ms);
    go_on_at(last->rank);
  }

  /// Goes back along a message to the rank that came later, the sender or the receiver; only to the
  /// begin of the wait if the message was there by then.
  void go_along(const TraceSlice& moved, const TraceSlice& wait) {
    const auto last = collectives_.last_of_message(moved.name, worker_->rank, moved.begin_ms);
    const bool was_there = moved.end_ms <= wait.begin_ms + nothing_ms;
    if (!last || was_there) return add(communication, moved.name, wait.begin_ms);
    add(communication, moved.name, last->at_ms);
    go_on_at(last->rank);
  }

  void go_on_at(int rank) {
    for (const TracedWorker& other : run_.workers)
      if (other.rank == rank) worker_ = &other;
  }

  /// The communication of the rank that ended last while `moved` waited with all ranks there; null
  /// if there was none.
  const TraceSlice* made_room_for(const TraceSlice& moved, double all_there_ms) const {
    const TraceSlice* out = nullptr;
    for (const TraceSlice& other : worker_->communication)
      if (&other != &moved && other.begin_ms <= moved.begin_ms &&
          other.end_ms < at_ms_ - nothing_ms && other.end_ms > all_there_ms + nothing_ms &&
          (!out || other.end_ms > out->end_ms))
        out = &other;
    return out;
  }

  const TracedRun& run_;
  const Collectives& collectives_;
  std::size_t from_last_ = 0;  // the step, counted from the last one back
  const TracedWorker* worker_ = nullptr;
  double at_ms_ = 0;
  std::vector<PathPart> path_;
};

}  // namespace

std::vector<PathPart> critical_path(const TracedRun& run, const Collectives& collectives,
                                    double step_ms) {
  return Walk(run, collectives, step_ms).back();
}

std::vector<PathPart> added_up(const std::vector<PathPart>& path) {
  std::vector<PathPart> out;
  for (const PathPart& part : path) {
    const bool moves = part.activity == communication;
    const std::string operation = moves ? part.name.substr(0, part.name.find(' ')) : "";
    const auto known = std::find_if(out.begin(), out.end(), [&](const PathPart& one) {
      return one.activity == part.activity && one.name == operation &&
             (moves || one.rank == part.rank);
    });
    if (known == out.end())
      out.push_back({part.rank, part.activity, operation, part.ms});
    else
      known->ms += part.ms;
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const PathPart& a, const PathPart& b) { return a.ms > b.ms; });
  return out;
}

}  // namespace ringside::tools::explain
