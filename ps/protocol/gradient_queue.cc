#include "ps/protocol/gradient_queue.h"

#include <algorithm>
#include <utility>

namespace ringside::ps {

void GradientQueue::add(PushedGradient gradient) { waiting_.push_back(std::move(gradient)); }

bool GradientQueue::has(int worker) const {
  return std::ranges::any_of(waiting_,
                             [worker](const PushedGradient& one) { return one.worker == worker; });
}

std::size_t GradientQueue::count(std::int64_t update) const {
  return static_cast<std::size_t>(std::ranges::count(waiting_, update, &PushedGradient::update));
}

std::optional<PushedGradient> GradientQueue::take(int worker, std::int64_t update) {
  const auto found = std::ranges::find_if(waiting_, [&](const PushedGradient& one) {
    return one.worker == worker && one.update == update;
  });
  if (found == waiting_.end()) return {};
  PushedGradient gradient = std::move(*found);
  waiting_.erase(found);
  return gradient;
}

std::vector<PushedGradient> GradientQueue::take_all(
    const std::function<bool(const PushedGradient& gradient)>& chosen) {
  std::vector<PushedGradient> taken;
  std::erase_if(waiting_, [&](PushedGradient& one) {
    if (!chosen(one)) return false;
    taken.push_back(std::move(one));
    return true;
  });
  return taken;
}

void GradientQueue::keep(const std::function<Tensor(const Tensor&)>& copy) {
  for (PushedGradient& gradient : waiting_)
    if (!std::exchange(gradient.copied, true)) gradient.values = copy(gradient.values);
}

}  // namespace ringside::ps
