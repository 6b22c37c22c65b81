#include "core/launch/rank_watch.h"

#include <utility>

#include "core/base/error.h"

namespace ringside {

RankWatch::RankWatch(const RunPlan& plan, Words words)
    : plan_(plan), words_(std::move(words)), last_step_(plan.ranks.size()) {}

void RankWatch::note_step(int process, std::int64_t done, double seconds, double compute_s) {
  last_step_[static_cast<std::size_t>(process)] = fmt::format(" after step {}", done);
  note_speed(process, compute_s);
  if (standstill_.note_step(process, seconds))
    words_.say(fmt::format("{} makes progress again\n", words_.name(process)));
}

void RankWatch::note_speed(int process, double compute_s) {
  if (plan_.cluster || compute_s <= 0) return;
  const auto slow = stragglers_.note(process, compute_s);
  if (!slow) return;
  slow_[process] = fmt::format("{} computes {:.1f} times as long as the median of the others{}",
                               words_.name(process), slow->times, last_step(process));
  const bool leaves = plan_.faults.remove_slow && words_.remove(process);
  words_.say("slow: " + slow_[process] +
             (leaves ? "; it leaves (faults.remove_slow)\n" : "; the run goes on with it\n"));
}

void RankWatch::note_beat(int process, const Beat& beat) {
  if (!standstill_.note_beat(process, beat)) return;
  words_.say(
      fmt::format("{} stands still for {:.1f} s{}, and others wait for it, at most "
                  "train.timeout_s = {:g} s\n",
                  words_.name(process), beat.quiet_s, last_step(process), plan_.train.timeout_s));
}

void RankWatch::note_stop(int process, bool stands, double now) {
  if (stands) {
    stopped_at_[process] = now;
    words_.say(
        fmt::format("{} was stopped by a signal{}; others wait for it, at most "
                    "train.timeout_s = {:g} s\n",
                    words_.name(process), last_step(process), plan_.train.timeout_s));
  } else if (const auto since = stopped_at_.extract(process)) {
    words_.say(
        fmt::format("{} goes on after {:.1f} s\n", words_.name(process), now - since.mapped()));
  }
}

}  // namespace ringside
