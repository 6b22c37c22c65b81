// A parameter that two units share.
#pragma once

#include <utility>

#include "core/nn/unit.h"

namespace ringside {

/// A parameter of one unit, the owner, that a later unit of the model reads as well; the later unit
/// names the owner as its lender(). Both units hold this object, whose state is in the SideValues
/// of a micro-batch, at the table's edge.
///
/// Where both units are in one part of the model, the edge has no value. In backward the later unit
/// comes first and writes its part of the gradient: into the owner's gradient range if that is
/// bound already, so that it takes no memory of its own while other units compute. The owner writes
/// its own part into another tensor and adds the two up. A sum of two values has the same bits in
/// either order. Where gradients of parameters are put off, all of this is done in
/// finish_weights(), which has to come first for the later unit as well.
///
/// Where the owner is in another part of the model, the caller puts the table into the edge's value
/// for the later unit, takes the later unit's part of the gradient from the edge, and puts it into
/// the edge of the owner's micro-batch before the owner computes its gradient.
class TiedTable {
 public:
  /// The owner must outlive this object.
  TiedTable(const Unit& owner, std::size_t parameter, std::size_t edge)
      : owner_(owner), parameter_(parameter), edge_(edge) {}

  /// The table's place in the owner's layout.
  std::size_t parameter() const { return parameter_; }
  const Shape& shape() const { return owner_.layout().parameters()[parameter_].shape; }
  Tensor value(SideValues& side) const {
    return side[edge_].value ? side[edge_].value : owner_.value(parameter_);
  }

  /// Returns the tensor, of the given dtype, into which the later unit writes its whole part of the
  /// gradient.
  Tensor start_gradient(SideValues& side, DType dtype) const {
    SideValues::Value& shared = side[edge_];
    const bool in_place = !shared.value && owner_.has_gradients();
    shared.gradient = in_place ? owner_.gradient(parameter_)
                               : owner_.device().tensor(shape(), MemoryKind::gradient, dtype);
    return shared.gradient;
  }
  /// Returns the tensor into which the owner writes its part, all of which it has to write before
  /// it calls add_up().
  Tensor owners_part(SideValues& side) const {
    const Tensor gradient = owner_.gradient(parameter_);
    if (!side[edge_].gradient.begins_at(gradient)) return gradient;
    return owner_.device().tensor(shape(), MemoryKind::workspace, gradient.dtype());
  }
  /// Makes the owner's gradient the sum of both parts. `owners` is the owner's part.
  void add_up(const Tensor& owners, SideValues& side) const {
    const Tensor later = std::exchange(side[edge_].gradient, {});
    if (!later) return;  // the later unit has computed no gradient
    const Tensor gradient = owner_.gradient(parameter_);
    owner_.device().kernels().add(
        {.in = later.begins_at(gradient) ? owners : later, .out = gradient});
  }

 private:
  const Unit& owner_;
  std::size_t parameter_, edge_;
};

}  // namespace ringside
