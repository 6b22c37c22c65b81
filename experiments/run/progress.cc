#include "experiments/run/progress.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "core/base/error.h"
#include "core/plan/same_run.h"

namespace ringside {
namespace {

constexpr double plain_interval_s = 2;
constexpr double rewrite_interval_s = 0.1;

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::ceil(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

ProgressDisplay::ProgressDisplay(std::ostream& out, int columns, std::vector<RunPlan> runs,
                                 std::function<double()> now)
    : out_(out), columns_(columns), runs_(std::move(runs)), now_(std::move(now)) {}

std::string ProgressDisplay::head() const {
  const RunPlan& plan = runs_[index_];
  return fmt::format(
      "[{:>{}}/{}] {} world {} repeat {}{}", index_ + 1, std::to_string(runs_.size()).size(),
      runs_.size(), plan.label, plan.world, plan.repeat,
      attempt_ > 1 ? fmt::format(", attempt {} of {}", attempt_, most_attempts_) : "");
}

void ProgressDisplay::begin_run(std::size_t index, int attempt, int most_attempts) {
  index_ = index;
  attempt_ = attempt;
  most_attempts_ = most_attempts;
  steps_done_ = 0;
  run_began_ = now_();
  last_shown_ = run_began_;
  if (columns_ > 0) show(head() + "  starting");
}

void ProgressDisplay::step(std::int64_t steps_done, double seconds) {
  const double now = now_();
  if (steps_done_ == 0) first_step_ended_ = now;
  steps_done_ = steps_done;
  if (now - last_shown_ < (columns_ > 0 ? rewrite_interval_s : plain_interval_s)) return;
  last_shown_ = now;
  const TrainConfig& train = runs_[index_].train;
  std::string line = fmt::format("{}  step {}/{}", head(), steps_done, train.steps);
  if (seconds > 0)
    line += fmt::format("  {:.1f} samples/s", static_cast<double>(train.global_batch) / seconds);
  if (const double left = seconds_left(); left >= 0)
    line += fmt::format("  {} left", duration_text(left));
  show(line);
}

void ProgressDisplay::end_run(const Row& row) {
  seconds_of_runs_.resize(runs_.size());
  seconds_of_runs_[index_] = now_() - run_began_;
  std::string line = head();
  if (row.status == "ok") {
    line +=
        fmt::format("  {:.1f} samples/s  step {:.1f} ms", row.samples_per_s, row.step_ms.median);
    if (!row.loss.empty()) line += fmt::format("  loss {:.4f}", row.loss.back());
    if (const std::string cause = disturbance(row); !cause.empty())
      line += fmt::format("  DISTURBED: {}", cause);
  } else {
    line += "  FAILED: " + row.error;
  }
  leave_line();
  out_ << line << std::endl;
}

void ProgressDisplay::leave_line() {
  if (shown_length_ > 0) out_ << '\r' << std::string(shown_length_, ' ') << '\r' << std::flush;
  shown_length_ = 0;
}

void ProgressDisplay::show(const std::string& line) {
  if (columns_ == 0) {
    out_ << line << std::endl;
    return;
  }
  const std::string cut = line.substr(0, static_cast<std::size_t>(std::max(1, columns_ - 1)));
  leave_line();
  out_ << cut << std::flush;
  shown_length_ = cut.size();
}

double ProgressDisplay::expected_seconds(std::size_t index) const {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < seconds_of_runs_.size(); ++i) {
    if (seconds_of_runs_[i] <= 0) continue;
    if (same_case(runs_[i], runs_[index])) return seconds_of_runs_[i];
    sum += seconds_of_runs_[i];
    count += 1;
  }
  return count > 0 ? sum / count : -1;
}

double ProgressDisplay::seconds_left() const {
  const double now = now_();
  double this_run = expected_seconds(index_);
  if (steps_done_ > 1) {
    const double each = (now - first_step_ended_) / static_cast<double>(steps_done_ - 1);
    this_run =
        (now - run_began_) + each * static_cast<double>(runs_[index_].train.steps - steps_done_);
  }
  if (this_run < 0) return -1;
  double left = std::max(0.0, this_run - (now - run_began_));
  for (std::size_t i = index_ + 1; i < runs_.size(); ++i) {
    const double expected = expected_seconds(i);
    left += expected >= 0 ? expected : this_run;
  }
  return left;
}

}  // namespace ringside
