// The initial values of a model's parameters.
#pragma once

#include <cstdint>
#include <memory>

#include "core/nn/unit.h"

namespace ringside {

/// Parameter values before the first step. Callers may ask for any part of a unit, so under a
/// sharded scheme each rank makes only its own part. Thread-safe.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  /// Writes elements [begin, begin + out.count()) of the unit's range to `out`, rounded if `out`
  /// has 16 bits. `first_parameter` is the position of the unit's first parameter in the model's
  /// order. Writes nothing on a device without values. Throws Error for elements that the unit does
  /// not have.
  virtual void write(const Unit& unit, std::int64_t first_parameter, std::int64_t begin,
                     const Tensor& out) const = 0;
  /// Writes the unit's running statistics. By default nothing is written: layers have already set
  /// the statistics of an untrained model.
  virtual void write_statistics(const Unit& unit) const { static_cast<void>(unit); }
};

/// Values that depend only on the seed and on their position in the model: see initialise().
std::shared_ptr<const InitialValues> drawn_values(std::uint64_t seed);

}  // namespace ringside
