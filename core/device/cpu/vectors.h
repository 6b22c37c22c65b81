// Vectors as an extension of the compilers: arithmetic on them works element by element, and can be
// compiled for any processor.
#pragma once

#include <cstdint>
#include <cstring>

namespace ringside::cpu {

/// The number of floats in one vector register.
constexpr std::int64_t lanes = RINGSIDE_VECTOR_BYTES / 4;

using Vector = float __attribute__((vector_size(RINGSIDE_VECTOR_BYTES)));
/// Loads and stores of a vector at an address that only has the alignment of a float: one
/// instruction each. (A reference to a type of vectors with less alignment would not do: clang
/// takes it for one of full alignment.)
inline Vector load(const float* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
inline void store(const Vector& vector, float* to) { std::memcpy(to, &vector, sizeof vector); }

}  // namespace ringside::cpu
