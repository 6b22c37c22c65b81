// Vectors as an extension of the compilers: arithmetic on them works element by element, and can be
// compiled for any processor.
#pragma once

#include <cstdint>

namespace ringside::cpu {

/// The number of floats in one vector register.
constexpr std::int64_t lanes = RINGSIDE_VECTOR_BYTES / 4;

using Vector = float __attribute__((vector_size(RINGSIDE_VECTOR_BYTES)));
/// A vector whose address only needs the alignment of a float.
using Loose = float __attribute__((vector_size(RINGSIDE_VECTOR_BYTES), aligned(4), may_alias));

inline const Loose& vector_at(const float* data) { return *reinterpret_cast<const Loose*>(data); }
inline Loose& vector_at(float* data) { return *reinterpret_cast<Loose*>(data); }

}  // namespace ringside::cpu
