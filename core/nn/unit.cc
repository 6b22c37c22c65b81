#include "core/nn/unit.h"

#include "core/base/error.h"

namespace ringside {

void Unit::bind(Tensor parameters, Tensor gradients) {
  const std::int64_t count = layout_.count();
  const auto check = [&](const Tensor& range, bool fits) {
    if (range && !fits)
      throw Error("unit {}: bound to a range of {} elements, but its layout has {}", name_,
                  range.count(), count);
  };
  check(parameters, parameters.count() == count);
  check(gradients, gradients.count() == count || (count > 0 && gradients.count() % count == 0));
  parameters_ = std::move(parameters);
  gradients_ = std::move(gradients);
}

Tensor Unit::named(const Tensor& range, std::size_t parameter, std::int64_t begin) const {
  const Parameter& p = layout_.parameters()[parameter];
  if (!range) throw Error("unit {}: {} is used, but no range is bound to the unit", name_, p.name);
  return range.view(begin + p.begin, p.shape);
}

}  // namespace ringside
