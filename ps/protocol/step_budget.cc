#include "ps/protocol/step_budget.h"

#include <algorithm>
#include <utility>

namespace ringside::ps {

StepBudget::StepBudget(std::int64_t steps, int workers, const Rule& rule)
    : steps_(steps),
      rule_(rule),
      left_(steps * workers),
      given_(static_cast<std::size_t>(workers)),
      speeds_(static_cast<std::size_t>(workers)) {}

/// Workers ask one exchange ahead: the first to come would otherwise take the steps of a short run
/// before another has asked once.
std::int64_t StepBudget::give(int worker, double speed, std::int64_t limit,
                              const std::function<bool(int worker)>& asks) {
  const auto own = static_cast<std::size_t>(worker);
  speeds_[own] = speed;
  std::int64_t steps = rule_.period;
  const double fastest = std::ranges::max(speeds_);
  if (rule_.by_speed && speed > 0)
    steps = static_cast<std::int64_t>(static_cast<double>(steps) * (speed / fastest));
  std::int64_t free = left_ - (steps_ - limit) * workers();
  for (std::size_t w = 0; w < given_.size(); ++w)
    if (w != own && given_[w] == 0 && asks(static_cast<int>(w))) free -= rule_.period;
  steps = std::clamp<std::int64_t>(std::max<std::int64_t>(1, steps), 0,
                                   std::max<std::int64_t>(0, free));
  left_ -= steps;
  given_[own] += steps;
  return steps;
}

void StepBudget::count_given(int worker, std::int64_t steps) {
  std::int64_t& given = given_[static_cast<std::size_t>(worker)];
  left_ += given - steps;
  given = steps;
}

std::int64_t StepBudget::begun() const {
  return (steps_ * workers() - left_ + workers() - 1) / workers();
}

void StepBudget::restored(std::int64_t steps) {
  left_ = (steps_ - steps) * workers();
  std::ranges::fill(given_, steps);
}

void StepBudget::restored(std::vector<std::int64_t> given, std::vector<double> speeds) {
  given_ = std::move(given);
  speeds_ = std::move(speeds);
}

}  // namespace ringside::ps
