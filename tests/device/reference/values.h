// The values of the float64 references, and their rounding to a dtype.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/dtype.h"

namespace ringside::reference {

using Values = std::vector<double>;
using Index = std::int64_t;

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// The values rounded to fp32, and then to `dtype`.
inline Values rounded(Values values, DType dtype) {
  for (auto& value : values) {
    const auto single = static_cast<float>(value);
    value = dtype == DType::bf16  ? to_float(to_bf16(single))
            : dtype == DType::f16 ? to_float(to_fp16(single))
                                  : single;
  }
  return values;
}

}  // namespace ringside::reference
