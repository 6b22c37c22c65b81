// A part of a model: the units that one worker of a pipeline has.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/models/initial_values.h"
#include "core/models/model.h"

namespace ringside {

/// The units [first, last) of a model.
struct UnitRange {
  std::size_t first = 0, last = 0;
  bool operator==(const UnitRange&) const = default;
};

/// The part of `whole` that consists of these ranges, which ascend and do not overlap; its units
/// follow each other in their order. Of Model's members, `edges` keep the numbers of the whole
/// model. The units that are left over end with the call, but for lenders of others.
Model part_of(Model whole, const std::vector<UnitRange>& ranges);

/// Initial values of the whole model for a part of it, whose schemes know positions in the part
/// alone. The model outlives the values.
std::shared_ptr<const InitialValues> values_of_part(std::shared_ptr<const InitialValues> whole,
                                                    const Model& part);

/// Elements of the whole model: `count` of them, from `begin` on.
struct ModelStretch {
  std::int64_t begin = 0, count = 0;
};
/// Where elements [begin, begin + count) of a model's parameters stand in the whole model: one
/// stretch for each run of units that follow each other there.
std::vector<ModelStretch> in_whole_model(const Model& model, std::int64_t begin,
                                         std::int64_t count);

}  // namespace ringside
