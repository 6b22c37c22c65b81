#include "ps/protocol/clocks.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace ringside::ps {

Clocks::Clocks(const Policy& policy, int workers, std::int64_t pushes)
    : policy_(policy),
      pushes_(pushes),
      next_(static_cast<std::size_t>(workers)),
      gone_(static_cast<std::size_t>(workers)),
      first_(next_.size()),
      begins_(next_.size()) {}

std::int64_t Clocks::push(int worker, std::int64_t step, std::int64_t push, std::int64_t version) {
  if (push < 0 || push >= pushes_)
    throw Error("step {} has no push {}: a step has {} pushes, numbered from 0", step, push,
                pushes_);
  std::int64_t& next = next_[static_cast<std::size_t>(worker)];
  constexpr std::int64_t most_steps = std::int64_t{1} << 40;  // no product overflows
  if (step < 0 || step > most_steps)
    throw Error("step {} was pushed, but {} is due", step, text(next));
  const std::int64_t number = step * pushes_ + push;
  if (number < next) throw Error("{} has already been pushed", text(number));
  if (number > next && !policy_.may_skip())
    throw Error("{} was pushed, but {} is due", text(number), text(next));
  if (number - version > policy_.most_ahead())
    throw Error("{} was pushed before another worker pushed {}", text(number),
                text(number - policy_.most_ahead() - 1));
  next = number + 1;
  begins_[static_cast<std::size_t>(worker)] = false;
  return number;
}

void Clocks::restored(std::int64_t number) { std::ranges::fill(next_, number); }

void Clocks::leave(int worker) { gone_[static_cast<std::size_t>(worker)] = true; }

void Clocks::come(int worker, std::int64_t number) {
  const auto w = static_cast<std::size_t>(worker);
  gone_[w] = false;
  next_[w] = number;
  begins_[w] = true;
  if (!policy_.shares_steps()) first_[w] = number;
}

bool Clocks::are_all_there() const {
  return std::ranges::none_of(gone_, [](bool gone) { return gone; });
}

bool Clocks::can_still_push(std::int64_t version) const {
  for (std::size_t w = 0; w < next_.size(); ++w)
    if (!gone_[w] && !begins_[w] &&
        policy_.update_of(next_[w], version).value_or(version) <= version)
      return true;
  return false;
}

std::int64_t Clocks::complete() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t w = 0; w < next_.size(); ++w)
    if (!gone_[w]) least = std::min(least, next_[w]);
  return least / pushes_;
}

std::string Clocks::text(std::int64_t number) const {
  return pushes_ == 1 ? fmt::format("step {}", number)
                      : fmt::format("push {} of step {}", number % pushes_, number / pushes_);
}

}  // namespace ringside::ps
