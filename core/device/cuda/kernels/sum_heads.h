// The sum over heads that read the same keys and values.
#pragma once

#include "core/device/cuda/runtime/context.h"

namespace ringside::cuda {

/// out = the sum of the parts of all heads, in their order, rounded once.
struct SumHeads {
  const float* parts;  // [heads, positions, depth]
  void* out;           // [positions, depth] of `dtype`; rows lie `stride` elements apart
  std::int64_t heads, positions, depth, stride;
  DType dtype;
};
void sum_heads(const Context& context, const SumHeads& op);

}  // namespace ringside::cuda
