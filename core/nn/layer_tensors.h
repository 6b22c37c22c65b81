// Constructors of the tensors that layers and models need.
#pragma once

#include "core/nn/unit.h"

namespace ringside::layer {

inline constexpr Init zeros{Init::Kind::constant, 0};
inline constexpr Init ones{Init::Kind::constant, 1};

inline Tensor rows(const Tensor& x, std::int64_t width) {
  return x.reshaped({x.count() / width, width});
}

/// One rank's part of `x`: rows [M, width] or images [B, H, W, C] of `ranks` ranks (Pass::ranks),
/// rank after rank. Empty if `x` is empty.
inline Tensor of_rank(const Tensor& x, std::int64_t rank, std::int64_t ranks) {
  if (!x || ranks == 1) return x;
  const Shape& all = x.shape();
  const std::int64_t n = all[0] / ranks;
  return x.view(rank * x.count() / ranks,
                all.rank() == 4 ? Shape{n, all[1], all[2], all[3]} : Shape{n, all[1]});
}

inline Tensor activation(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::activation, unit.dtype());
}

/// A tensor for means, reciprocal roots and sums that backward needs: fp32 whatever the unit's
/// dtype.
inline Tensor statistic(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::activation);
}

/// A tensor for the gradient of an activation. The gradient is needed only from the backward of one
/// layer to the backward of the next.
inline Tensor workspace(const Unit& unit, Shape shape) {
  return unit.device().tensor(shape, MemoryKind::workspace, unit.dtype());
}

/// Where backward() writes the gradient of a parameter that it computes together with that of its
/// input: the unit's gradient range; or, if gradients of parameters are put off, a tensor that is
/// copied there later.
inline Tensor gradient(const Unit& unit, std::size_t parameter, Saved& saved,
                       std::int64_t rank = 0) {
  if (!saved.puts_off()) return unit.gradient(parameter, rank);
  const Tensor own = workspace(unit, unit.layout().parameters()[parameter].shape);
  saved.put_off([&unit, parameter, rank, own] {
    unit.device().kernels().copy({.in = own, .out = unit.gradient(parameter, rank)});
  });
  return own;
}

/// Where backward() writes a sum with `dresidual`: to the same memory, unless work that was put off
/// reads it.
inline Tensor sum_with(const Unit& unit, const Tensor& dresidual, Saved& saved) {
  return saved.puts_off() ? workspace(unit, dresidual.shape()) : dresidual;
}

/// Converts a dataset's fp32 values to the dtype in which the unit computes.
inline Tensor as_computed(const Unit& unit, const Tensor& x) {
  if (x.dtype() == unit.dtype()) return x;
  const Tensor out = activation(unit, x.shape());
  unit.device().kernels().cast({.in = x, .out = out});
  return out;
}

}  // namespace ringside::layer
