// Sums over ranks, element by element.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor/dtype.h"

namespace ringside::peer {

/// Whether ranks can add up values of this dtype.
constexpr bool summable(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// Sets every targets[t][i] to sources[0][i] + sources[1][i] + ..., added in that order in fp32.
/// For bf16 and fp16 every sum is rounded before the next value is added. The result has the same
/// bits as if whole tensors were added one after the other. The arrays have `count` elements of a
/// summable dtype. A target may be one of the sources, but must not overlap a source otherwise.
void sum_in_order(DType dtype, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> targets, std::size_t count);

}  // namespace ringside::peer
