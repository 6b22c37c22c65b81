// Tensors that layers make; for layers alone.
#pragma once

#include "core/nn/unit.h"

namespace ringside::layer {

inline constexpr Init zeros{Init::Kind::constant, 0};
inline constexpr Init ones{Init::Kind::constant, 1};

inline Tensor rows(const Tensor& x, std::int64_t width) {
  return x.reshaped({x.count() / width, width});
}

inline Tensor activation(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::activation, unit.dtype());
}

/// Means, roots and sums that backward needs: fp32 in any precision.
inline Tensor statistic(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::activation);
}

/// Gradients of activations live from one layer's backward to the next.
inline Tensor workspace(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::workspace, unit.dtype());
}

/// What comes from a data set is fp32: the same values as the unit computes with them.
inline Tensor as_computed(const Unit& unit, const Tensor& x) {
  if (x.dtype() == unit.dtype()) return x;
  const Tensor out = activation(unit, x.shape());
  unit.device().kernels().cast({.in = x, .out = out});
  return out;
}

}  // namespace ringside::layer
