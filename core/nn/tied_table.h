// A parameter that two units share.
#pragma once

#include <utility>

#include "core/nn/unit.h"

namespace ringside {

/// A parameter of one unit, the owner, that a later unit of the model reads as well; the later unit
/// names the owner as its lender(). Both units hold this object. In backward the later unit comes
/// first: it leaves its part of the gradient here; the owner adds that part to its own and frees
/// it.
class TiedTable {
 public:
  /// The owner must outlive this object.
  TiedTable(const Unit& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}

  const Shape& shape() const { return owner_.layout().parameters()[parameter_].shape; }
  Tensor value() const { return owner_.value(parameter_); }

  /// Returns the tensor into which the later unit writes its whole part of the gradient.
  const Tensor& start_gradient() {
    gradient_ = owner_.device().tensor(shape(), MemoryKind::gradient, owner_.dtype());
    return gradient_;
  }
  /// Adds the later unit's part to the owner's gradient. The owner calls it after writing its own
  /// part.
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
