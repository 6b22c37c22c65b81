// MicroBatch: what units keep of one micro-batch, for tests.
#pragma once

#include <utility>
#include <vector>

#include "core/models/model.h"

namespace ringside::testing {

/// The Saved objects of some units, and the values of the model's edges.
struct MicroBatch {
  explicit MicroBatch(const Model& model) : MicroBatch(model.units.size(), model.edges.size()) {}
  explicit MicroBatch(std::size_t units = 1, std::size_t edges = 0)
      : side(edges), saved(units, Saved(side)) {}
  MicroBatch(const MicroBatch&) = delete;
  MicroBatch& operator=(const MicroBatch&) = delete;

  /// Takes `x` through all units of the model.
  Tensor forward(const Model& model, Tensor x, const Pass& pass) {
    for (std::size_t u = 0; u < model.units.size(); ++u)
      x = model.units[u]->forward(x, pass, saved[u]);
    return x;
  }
  /// As in a trainer, nothing but `d` holds what a unit returned.
  Tensor backward(const Model& model, Tensor d) {
    for (std::size_t u = model.units.size(); u-- > 0;) d = model.units[u]->backward(d, saved[u]);
    return d;
  }

  SideValues side;
  std::vector<Saved> saved;
};

/// Where the values go that a forward of one unit keeps and whose backward is not asked for.
inline Tensor forward_of(Unit& unit, const Tensor& input, const Pass& pass) {
  MicroBatch own;
  return unit.forward(input, pass, own.saved[0]);
}

}  // namespace ringside::testing
