// A parameter that two units share.
#pragma once

#include <utility>

#include "core/nn/unit.h"

namespace ringside {

/// A parameter of one unit, the owner, that a later unit of the model reads as well; the later unit
/// names the owner as its lender(). Both units hold this object. In backward the later unit comes
/// first and writes its part of the gradient: into the owner's gradient range if that is bound
/// already, so that it takes no memory of its own while other units compute. The owner writes its
/// own part into another tensor and adds the two up. A sum of two values has the same bits in
/// either order.
class TiedTable {
 public:
  /// The owner must outlive this object.
  TiedTable(const Unit& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}

  const Shape& shape() const { return owner_.layout().parameters()[parameter_].shape; }
  Tensor value() const { return owner_.value(parameter_); }

  /// Returns the tensor into which the later unit writes its whole part of the gradient.
  Tensor start_gradient() {
    in_place_ = owner_.has_gradients();
    if (in_place_) return owner_.gradient(parameter_);
    return part_ = owner_.device().tensor(shape(), MemoryKind::gradient, owner_.dtype());
  }
  /// Returns the tensor into which the owner writes its part, all of which it has to write before
  /// it calls add_up().
  Tensor owners_part() {
    if (!in_place_) return owner_.gradient(parameter_);
    return part_ = owner_.device().tensor(shape(), MemoryKind::workspace, owner_.dtype());
  }
  /// Makes the owner's gradient the sum of both parts.
  void add_up() {
    in_place_ = false;
    if (!part_) return;  // the later unit has computed no gradient
    const Tensor part = std::exchange(part_, {});
    owner_.device().kernels().add({.in = part, .out = owner_.gradient(parameter_)});
  }

 private:
  const Unit& owner_;
  std::size_t parameter_;
  bool in_place_ = false;
  Tensor part_;  // the one that is not in the owner's gradient
};

}  // namespace ringside
