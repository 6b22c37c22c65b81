#include "ps/consistency.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::ps {

void check_consistency(const std::string& consistency) {
  if (consistency == "bsp") return;
  throw Error("consistency '{}' is none that servers keep; the one there is: bsp", consistency);
}

Clocks::Clocks(int workers) : pushed_(static_cast<std::size_t>(workers)) {}

void Clocks::push(int worker, std::int64_t step) {
  std::int64_t& next = pushed_[static_cast<std::size_t>(worker)];
  if (step < next) throw Error("step {} was pushed before", step);
  if (step > next) throw Error("step {} pushed where step {} is due", step, next);
  if (!may_read(step))
    throw Error("step {} pushed while another worker's step {} is missing", step, complete());
  ++next;
}

bool Clocks::may_read(std::int64_t steps) const { return steps <= complete(); }

std::int64_t Clocks::complete() const { return *std::min_element(pushed_.begin(), pushed_.end()); }

}  // namespace ringside::ps
