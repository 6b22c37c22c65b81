// FsdpUnits: neighbouring units of the model whose parameters and gradients move together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/models/model.h"

namespace ringside::peer {

/// Elements [begin, begin + count) of the model: the units from `first` to `last`.
struct FsdpUnit {
  std::string name;
  std::size_t first = 0, last = 0;
  std::int64_t begin = 0, count = 0;
};

/// All units of a model in FSDP units. A message of a few small layers costs hardly more than that
/// of one of them, because most of it is latency; Zhao et al. (VLDB 2023, section 4.2) make
/// FlatParameters of neighbouring layers for the same reason.
class FsdpUnits {
 public:
  /// Units are joined from the first to the last until an FSDP unit has at least `least`
  /// parameters, or until gradients are divided (Model::divides_gradients). With 0 every unit is an
  /// FSDP unit.
  /// The model outlives this object.
  FsdpUnits(const Model& model, std::int64_t least);

  const Model& model() const { return model_; }
  std::size_t size() const { return fsdp_units_.size(); }
  const FsdpUnit& operator[](std::size_t fsdp_unit) const { return fsdp_units_[fsdp_unit]; }
  /// The FSDP unit that contains the unit.
  std::size_t of(std::size_t unit) const { return of_unit_[unit]; }
  /// Returns the elements of the unit, as a part of its whole FSDP unit.
  Tensor part(const Tensor& fsdp_unit, std::size_t unit) const;

 private:
  const Model& model_;
  std::vector<FsdpUnit> fsdp_units_;
  std::vector<std::size_t> of_unit_;
};

}  // namespace ringside::peer
