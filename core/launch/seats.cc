#include "core/launch/seats.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/comm/store.h"
#include "core/plan/faults.h"
#include "core/plan/worlds.h"

namespace ringside {

Seats::Seats(const RunPlan& plan, Processes processes)
    : plan_(plan),
      processes_(std::move(processes)),
      taken_again_(seats_are_taken_again(plan)),
      numbers_(static_cast<std::size_t>(plan.world)) {
  const bool goes_on = taken_again_ && !plan.resume.empty();
  periods_.push_back({.from = goes_on ? Checkpoint(plan.resume).manifest().step : 0,
                      .world = plan.world,
                      .cause = {}});
}

bool Seats::can_lose(int rank) const {
  return !plan_.cluster && may_be_lost(plan_, rank) &&
         static_cast<int>(away_.size() + begins_.size()) < plan_.expendable;
}

void Seats::lose(int rank, const std::string& why, double now) {
  empty(rank, why);
  if (!taken_again_ || over_) return;
  if (!added_.empty()) {
    fill(rank, added_.front());
    added_.erase(added_.begin());
  } else if (replaced_ < plan_.faults.restarts) {
    ++replaced_;
    fill(rank, now);
  }
}

void Seats::leave(int rank) {
  empty(rank, fmt::format("worker {} left", worker_of(rank)));
  if (added_.empty() || over_) return;
  fill(rank, added_.front());
  added_.erase(added_.begin());
}

void Seats::empty(int rank, const std::string& why) {
  const int worker = worker_of(rank);
  away_[worker] = over_ ? fmt::format("worker {} came when the run was over", worker) : why;
  leaving_.erase(rank);
  left_.erase(rank);
  const bool had_begun = begins_.erase(rank) == 0;
  processes_.set(lost_key(worker, numbers_[static_cast<std::size_t>(worker)]), why);
  if (had_begun) begin_period(why);
}

bool Seats::remove(int worker) {
  const int rank = worker;  // workers come first
  const int there = plan_.world - static_cast<int>(away_.size() + begins_.size() + leaving_.size());
  const char* const why = away_.contains(worker)      ? "it is away already"
                          : !may_be_lost(plan_, rank) ? "worker 0 and workers with a server stay"
                          : there <= least()          ? "too few would be left"
                                                      : nullptr;
  if (why) {
    processes_.say(fmt::format("worker {} does not leave: {}\n", worker, why));
    return false;
  }
  leaving_.insert(rank);
  processes_.set(leave_key(worker, numbers_[static_cast<std::size_t>(worker)]), "");
  return true;
}

void Seats::add(double now) {
  if (!away_.empty()) return fill(away_.begin()->first, now);
  processes_.say("no seat is empty; a worker comes when one is\n");
  added_.push_back(now);
}

/// `since` is when the seat was to be filled.
void Seats::fill(int rank, double since) {
  const int worker = worker_of(rank);
  away_.erase(worker);
  RunPlan plan = plan_;
  plan.generation = ++numbers_[static_cast<std::size_t>(worker)];
  plan.resume.clear();
  processes_.start(rank, plan);
  begins_[rank] = since;
}

void Seats::begin_period(const std::string& cause) {
  if (!taken_again_ || over_) return;
  const int world = plan_.world - static_cast<int>(away_.size() + begins_.size());
  // A fast worker may do more steps than the run has.
  const std::int64_t from = std::min(done_, plan_.train.steps);
  periods_.push_back({.from = from, .world = world, .cause = cause});
  processes_.say(fmt::format("world {} after step {}: {}\n", world, from, cause));
  processes_.begin_world();
}

void Seats::note_progress(int rank, std::int64_t steps, double now) {
  done_ = std::max(done_, steps);
  const auto begun = begins_.extract(rank);
  if (!begun || over_) return;
  begin_period(fmt::format("worker {} has come", worker_of(rank)));
  periods_.back().down_s = now - begun.mapped();
}

void Seats::end() {
  if (!taken_again_ || std::exchange(over_, true)) return;
  for (const auto& [rank, since] : begins_) processes_.kill(rank);
}

std::vector<WorldPeriod> Seats::worlds() const {
  return periods_.size() > 1 ? periods_ : std::vector<WorldPeriod>();
}

}  // namespace ringside
