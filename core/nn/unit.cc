#include "core/nn/unit.h"

#include "core/base/error.h"

namespace ringside {

void Unit::bind(Tensor parameters, Tensor gradients) {
  for (const Tensor& range : {parameters, gradients})
    if (range && range.count() != layout_.count())
      throw Error("unit {}: bound to a range of {} elements, but its layout has {}", name_,
                  range.count(), layout_.count());
  parameters_ = std::move(parameters);
  gradients_ = std::move(gradients);
}

Tensor Unit::named(const Tensor& range, std::size_t parameter) const {
  const Parameter& p = layout_.parameters()[parameter];
  if (!range) throw Error("unit {}: {} is used, but no range is bound to the unit", name_, p.name);
  return range.view(p.begin, p.shape);
}

}  // namespace ringside
