#include "core/sim/failing_run.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "core/num/random.h"

namespace ringside::sim {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Random numbers of one draw.
class Chance {
 public:
  Chance(std::uint64_t seed, int draw) : seed_(seed), draw_(static_cast<std::uint32_t>(draw)) {}

  /// Above 0, at most 1.
  double uniform() {
    constexpr std::uint32_t failures = 0x6661696cU;  // no other stream has this key
    const auto bits = philox(
        {static_cast<std::uint32_t>(number_), static_cast<std::uint32_t>(number_ >> 32), draw_, 0},
        {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32) ^ failures});
    ++number_;
    const std::uint64_t all = std::uint64_t{bits[0]} << 32 | bits[1];
    return (static_cast<double>(all >> 11) + 1) * 0x1p-53;
  }
  double exponential(double per_s) { return per_s > 0 ? -std::log(uniform()) / per_s : never; }

 private:
  std::uint64_t seed_;
  std::uint32_t draw_;
  std::uint64_t number_ = 0;
};

/// One draw: what happens from one event to the next.
class Course {
 public:
  Course(const FailingRun& run, double end, Chance chance)
      : run_(run), end_(end), chance_(chance), due_(static_cast<double>(run.every)) {
    for (const FailureKind& kind : run.failures) per_s_ += kind.per_s;
    fails_at_ = chance_.exponential(per_s_);
  }

  FailureCost run() {
    while (now_ < end_) next();
    cost_.goodput = done_ * run_.step_s / end_;
    if (cost_.restarts > 0) cost_.down_s /= cost_.restarts;
    return cost_;
  }

 private:
  /// Steps a second.
  double speed() const {
    if (down_until_ > now_ || stalled_until_ > now_) return 0;
    return (1 - static_cast<double>(away_) / static_cast<double>(run_.workers)) / run_.step_s;
  }

  void next() {
    const double speed_now = speed();
    const double due_at =
        run_.every > 0 && speed_now > 0 && !copied_ ? now_ + (due_ - done_) / speed_now : never;
    double at = std::min({end_, fails_at_, due_at, written_ ? whole_at_ : never});
    if (!back_at_.empty()) at = std::min(at, back_at_.front().at);
    for (const double until : {down_until_, stalled_until_})
      if (until > now_) at = std::min(at, until);
    const bool due = at == due_at;
    done_ = due ? due_ : done_ + speed_now * (at - now_);
    now_ = at;
    if (written_ && now_ >= whole_at_) safe_ = *std::exchange(written_, std::nullopt);
    while (!back_at_.empty() && back_at_.front().at <= now_) {
      away_ -= back_at_.front().workers;
      back_at_.pop_front();
    }
    if (due) {
      copied_ = due_;
      stalled_until_ = (written_ ? whole_at_ : now_) + run_.stall_s;
    }
    if (copied_ && now_ >= stalled_until_ && !written_) begin_to_write();
    if (now_ == fails_at_ && now_ < end_) fail();
  }

  /// From one such moment to the next nothing happens but the interval, unless something else is
  /// due before: whole intervals up to that are taken at once.
  void begin_to_write() {
    written_ = std::exchange(copied_, std::nullopt);
    const auto every = static_cast<double>(run_.every);
    const double period = std::max(every / speed(), run_.write_s) + run_.stall_s;
    const double other =
        std::min({end_, fails_at_, back_at_.empty() ? never : back_at_.front().at});
    if (const double whole = std::floor((other - now_) / period) - 1; whole > 0) {
      now_ += whole * period;
      done_ = *written_ += whole * every;
      safe_ = done_ - every;
    }
    whole_at_ = now_ + run_.write_s;
    due_ = *written_ + every;
    if (run_.write_s == 0) safe_ = *std::exchange(written_, std::nullopt);
  }

  void fail() {
    double which = chance_.uniform() * per_s_;
    const FailureKind* kind = &run_.failures.back();
    for (const FailureKind& one : run_.failures) {
      if (which <= one.per_s) {
        kind = &one;
        break;
      }
      which -= one.per_s;
    }
    fails_at_ = now_ + chance_.exponential(per_s_);
    const bool is_down = down_until_ > now_;
    if (kind->workers == 0 || away_ + kind->workers > run_.expendable) {
      restart();
    } else if (!is_down) {  // else the restart has another worker for it
      away_ += kind->workers;
      cost_.lost_workers += static_cast<double>(kind->workers);
      back_at_.push_back({now_ + run_.replace_s, kind->workers});
    }
  }

  void restart() {
    ++cost_.restarts;
    cost_.lost_steps += std::floor(done_) - safe_;
    cost_.down_s += run_.restart_s - std::max(0.0, down_until_ - now_);
    done_ = safe_;
    due_ = safe_ + static_cast<double>(run_.every);
    copied_.reset();
    written_.reset();
    back_at_.clear();
    away_ = 0;
    stalled_until_ = 0;
    down_until_ = now_ + run_.restart_s;
  }

  struct Return {
    double at;
    std::int64_t workers;
  };

  const FailingRun& run_;
  double end_;
  Chance chance_;
  FailureCost cost_;
  double per_s_ = 0, now_ = 0, fails_at_ = never;
  double done_ = 0, safe_ = 0, due_;        // steps
  std::optional<double> copied_, written_;  // checkpoints under way: their steps
  double stalled_until_ = 0, whole_at_ = 0, down_until_ = 0;
  std::deque<Return> back_at_;
  std::int64_t away_ = 0;
};

}  // namespace

FailureCost draw_failures(const FailingRun& run, double seconds, std::uint64_t seed, int draws) {
  FailureCost mean;
  for (int d = 0; d < draws; ++d) {
    const FailureCost one = Course(run, seconds, {seed, d}).run();
    mean.goodput += one.goodput / draws;
    mean.restarts += one.restarts / draws;
    mean.lost_steps += one.lost_steps / draws;
    mean.down_s += one.down_s * one.restarts / draws;
    mean.lost_workers += one.lost_workers / draws;
  }
  if (mean.restarts > 0) mean.down_s /= mean.restarts;
  return mean;
}

}  // namespace ringside::sim
