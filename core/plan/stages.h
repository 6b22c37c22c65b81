// Stages: contiguous parts of a model's units, as even as their weights allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ringside {

/// The first unit of each stage but the first, ascending, for `stages` stages of at least one unit
/// each. `weights` has the weight of each unit, none negative; there are at least as many units as
/// stages, and at least one stage. The heaviest stage is as light as it can be. Of all such
/// divisions, the result has the smallest sum of squares of the stages' weights, and of those the
/// earliest cuts, compared first to last. By dynamic programming over the units that are left
/// (Pinar and Aykanat, Fast optimal load balancing algorithms for 1D partitioning, JPDC 2004,
/// section 3.2), in time proportional to stages * units^2.
std::vector<std::int64_t> balanced_cuts(const std::vector<double>& weights, int stages);

/// The weight of the heaviest stage of that division.
double heaviest_stage(const std::vector<double>& weights, const std::vector<std::int64_t>& cuts);

}  // namespace ringside
