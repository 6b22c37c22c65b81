#include "ps/protocol/consistency.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::ps {

Clocks::Clocks(int workers, std::int64_t pushes)
    : pushes_(pushes), pushed_(static_cast<std::size_t>(workers)) {}

void Clocks::push(int worker, std::int64_t step, std::int64_t number) {
  if (number < 0 || number >= pushes_)
    throw Error("step {} has no push {}: a step has {} pushes, numbered from 0", step, number,
                pushes_);
  std::int64_t& next = pushed_[static_cast<std::size_t>(worker)];
  const std::int64_t due = next / pushes_, number_due = next % pushes_;
  if (step >= 0 && (step < due || (step == due && number < number_due)))
    throw Error("{} has already been pushed", text(step, number));
  if (step != due || number != number_due)
    throw Error("{} was pushed, but {} is due", text(step, number), text(due, number_due));
  if (const std::int64_t missing = least(); next > missing)
    throw Error("{} was pushed before another worker pushed {}", text(step, number),
                text(missing / pushes_, missing % pushes_));
  ++next;
}

std::int64_t Clocks::complete() const { return least() / pushes_; }

std::int64_t Clocks::least() const { return *std::min_element(pushed_.begin(), pushed_.end()); }

std::string Clocks::text(std::int64_t step, std::int64_t number) const {
  return pushes_ == 1 ? fmt::format("step {}", step)
                      : fmt::format("push {} of step {}", number, step);
}

}  // namespace ringside::ps
