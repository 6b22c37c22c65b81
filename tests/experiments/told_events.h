// Events that a test listens to, and a scripted comparison that produces some.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/run/event_feed.h"
#include "tests/experiments/made_up_rows.h"

namespace ringside::testing {

/// Keeps all events.
class Told : public runner::ProgressListener {
 public:
  void hear(const runner::ProgressEvent& event) override { events.push_back(event); }

  /// All events of one kind, in their order.
  template <class Event>
  std::vector<Event> all() const {
    std::vector<Event> out;
    for (const runner::ProgressEvent& event : events)
      if (const auto* one = std::get_if<Event>(&event.what)) out.push_back(*one);
    return out;
  }

  std::vector<runner::ProgressEvent> events;
};

/// A comparison of `single` at world 1 and of two repeats of `ddp` at world 2, six steps each, with
/// clocks that the test moves.
class ScriptedComparison {
 public:
  explicit ScriptedComparison(std::vector<runner::ProgressListener*> listeners)
      : runner::feed(
            [&] {
              listeners.push_back(&told);
              return listeners;
            }(),
            [this] { return now; }, [this] { return 1.7e9 + now; }) {
    plans = {made_up_row("single", 1, 0, 1, "", {}).plan, made_up_row("ddp", 2, 0, 1, "", {}).plan,
             made_up_row("ddp", 2, 1, 1, "", {}).plan};
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].line = plans[i].world - 1;
      plans[i].place = static_cast<int>(i);
    }
  }

  void begin(const std::vector<RunRecord>& kept = {}) {
    std::vector<RunPlan> remaining(plans.begin() + static_cast<std::ptrdiff_t>(kept.size()),
                                   plans.end());
    feed.begin("trial", 3, plans, remaining, kept);
  }
  /// The row of run `index`, at so many samples a second.
  RunRecord row(std::size_t index, double samples_per_s,
                std::vector<double> loss = {2, 1.5}) const {
    const RunPlan& plan = plans[index];
    RunRecord out =
        made_up_row(plan.scheme, plan.world, plan.repeat, samples_per_s, "a", std::move(loss));
    out.plan = plan;
    return out;
  }
  /// Makes the run, which does a step a second.
  void make(std::size_t index, double samples_per_s) {
    feed.begin_run(index, 1);
    for (int step = 1; step <= 6; ++step) {
      now += 1;
      feed.step({step, 3.0 - 0.25 * step, 2 / samples_per_s, {}});
    }
    feed.end_run(row(index, samples_per_s), true, false);
  }

  double now = 1000;
  Told told;
  std::vector<RunPlan> plans;
  runner::EventFeed feed;
};

}  // namespace ringside::testing
