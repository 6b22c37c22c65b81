// Sums over ranks, element by element.
#pragma once

#include <cstddef>
#include <span>

namespace ringside::peer {

/// Every targets[t][i] = sources[0][i] + sources[1][i] + ..., added in that order in fp32, read
/// once and kept in registers. A target may be a source, but not overlap one otherwise.
void sum_in_order(std::span<const float* const> sources, std::span<float* const> targets,
                  std::size_t count);

}  // namespace ringside::peer
