#include "experiments/runner/run/timed_steps.h"

#include <algorithm>
#include <utility>

#include "core/observe/run_record.h"

namespace ringside::runner {
namespace {

/// The median of one member of an operation's times over all steps.
template <class Member>
double median_over(const std::vector<std::vector<TimedOp>>& steps, std::size_t op, Member member) {
  std::vector<double> times;
  for (const auto& step : steps) times.push_back(step[op].*member);
  return quantiles(std::move(times)).median;
}

}  // namespace

void leave_out_short(std::vector<std::vector<TimedOp>>& steps) {
  std::size_t whole = 0;
  for (const auto& step : steps) whole = std::max(whole, step.size());
  std::erase_if(steps, [&](const auto& step) { return step.size() < whole; });
}

std::vector<TimedOp> TimedSteps::take_medians() {
  const std::vector<TimedOp> ops = device_.take_ops();
  std::vector<std::vector<TimedOp>> steps;
  std::size_t begin = 0;
  for (const End& end : std::exchange(ends_, {})) {
    const auto from =
        ops.begin() + static_cast<std::ptrdiff_t>(std::exchange(begin, end.operations));
    if (end.is_measured)
      steps.emplace_back(from, ops.begin() + static_cast<std::ptrdiff_t>(end.operations));
  }
  leave_out_short(steps);
  if (steps.empty()) return {};
  std::vector<TimedOp> out = steps.front();
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].seconds = median_over(steps, i, &TimedOp::seconds);
    out[i].before = median_over(steps, i, &TimedOp::before);
  }
  return out;
}

}  // namespace ringside::runner
