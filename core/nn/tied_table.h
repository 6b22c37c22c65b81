// A table that two units use.
#pragma once

#include <utility>

#include "core/nn/unit.h"

namespace ringside {

/// A parameter of its owner that a later unit of the model, which names the owner as its lender(),
/// reads as well. Both hold this object. In backward the later unit comes first: it leaves its part
/// of the gradient here, and the owner adds that to its own and frees it.
class TiedTable {
 public:
  /// The owner outlives it.
  TiedTable(const Unit& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}

  const Shape& shape() const { return owner_.layout().parameters()[parameter_].shape; }
  Tensor value() const { return owner_.value(parameter_); }

  /// Where the later unit writes the whole of its part.
  const Tensor& start_gradient() {
    gradient_ = owner_.device().tensor(shape(), MemoryKind::gradient, owner_.dtype());
    return gradient_;
  }
  /// For the owner, when its gradient has its own part.
  void add_gradient() {
    if (!gradient_) return;
    const Tensor part = std::exchange(gradient_, {});
    owner_.device().kernels().add({.in = part, .out = owner_.gradient(parameter_)});
  }

 private:
  const Unit& owner_;
  std::size_t parameter_;
  Tensor gradient_;
};

}  // namespace ringside
