// What a model starts with.
#pragma once

#include <cstdint>
#include <memory>

#include "core/nn/unit.h"

namespace ringside {

/// The values before the first step, for whoever asks for whatever part: a scheme makes each rank's
/// own. Safe from several threads.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  /// Elements [begin, begin + out.count()) of the unit's range, which may be any part of it,
  /// rounded where `out` has 16 bits. `first_parameter` is the unit's position in the model's
  /// order. Nothing for a device without values. Throws Error for a part that the unit does not
  /// have.
  virtual void write(const Unit& unit, std::int64_t first_parameter, std::int64_t begin,
                     const Tensor& out) const = 0;
  /// The unit's running statistics. Layers give them what an untrained model has.
  virtual void write_statistics(const Unit& unit) const { static_cast<void>(unit); }
};

/// Drawn by seed and position: see initialise().
std::shared_ptr<const InitialValues> drawn_values(std::uint64_t seed);

}  // namespace ringside
