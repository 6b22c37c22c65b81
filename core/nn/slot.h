// Slot: a layer's place in the Saved objects of its unit.
#pragma once

#include <utility>

#include "core/base/error.h"
#include "core/nn/unit.h"

namespace ringside {

/// Where a layer keeps values of type Kept between forward and backward: one for each Saved of its
/// unit, so that many micro-batches may be under way. A layer declares its slots in its
/// constructor. Kept can be copied.
template <class Kept>
class Slot {
 public:
  explicit Slot(Unit& unit) : index_(unit.declare_slot()) {}

  /// Overwrites what an earlier forward() may have kept.
  void keep(Saved& saved, Kept kept) const { saved.slot(index_) = std::move(kept); }
  /// Returns what was kept and leaves nothing behind. Throws Error if nothing was.
  Kept take(Saved& saved) const {
    Kept out = std::move(kept(saved));
    saved.slot(index_).reset();
    return out;
  }
  /// Throws Error if nothing was kept.
  const Kept& look(Saved& saved) const { return kept(saved); }
  bool has(Saved& saved) const { return saved.slot(index_).has_value(); }

 private:
  Kept& kept(Saved& saved) const {
    if (Kept* const found = std::any_cast<Kept>(&saved.slot(index_))) return *found;
    throw Error(
        "backward() finds nothing that forward() kept; call it once after each forward() with "
        "Pass::keep, with the same Saved");
  }

  std::size_t index_;
};

}  // namespace ringside
