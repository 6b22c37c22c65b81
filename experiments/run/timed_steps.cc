#include "experiments/run/timed_steps.h"

#include <algorithm>
#include <utility>

#include "core/observe/row.h"

namespace ringside {
namespace {

/// Of the times of one operation in all steps.
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

void TimedSteps::end(bool is_measured) {
  auto ops = device_.take_ops();
  if (is_measured) steps_.push_back(std::move(ops));
}

std::vector<TimedOp> TimedSteps::medians() const {
  auto steps = steps_;
  leave_out_short(steps);
  if (steps.empty()) return {};
  std::vector<TimedOp> out = steps.front();
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].seconds = median_over(steps, i, &TimedOp::seconds);
    out[i].before = median_over(steps, i, &TimedOp::before);
  }
  return out;
}

}  // namespace ringside
