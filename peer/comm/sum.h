// Sums over ranks, element by element.
#pragma once

#include <cstddef>
#include <span>

#include "core/tensor/dtype.h"

namespace ringside::peer {

/// What ranks can add up.
constexpr bool summable(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

/// Every targets[t][i] = sources[0][i] + sources[1][i] + ..., added in that order in fp32; of bf16
/// and fp16 every sum is rounded before the next one is added, as the addition of two tensors does,
/// so that the bits are those of ranks added one after the other. Arrays of `count` elements of one
/// of these types; a target may be a source, but not overlap one otherwise.
void sum_in_order(DType dtype, std::span<const std::byte* const> sources,
                  std::span<std::byte* const> targets, std::size_t count);

}  // namespace ringside::peer
