// The rules for when a server may take a push and answer a request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside::ps {

/// What workers may see of each other's updates.
enum class Consistency : std::uint8_t { bsp };
inline constexpr std::string_view consistency_names[] = {"bsp"};
constexpr EnumNames names_of(Consistency) { return consistency_names; }

/// Counts the gradients that each worker has pushed for one chunk; every worker pushes `pushes`
/// gradients in a step. The rule is bulk synchronous (BSP; Valiant, CACM 1990): no worker sees new
/// values, or pushes its next gradient, before every worker has pushed all earlier gradients.
class Clocks {
 public:
  explicit Clocks(int workers, std::int64_t pushes = 1);

  /// Counts push `number` of `step`. Throws Error if this is not the worker's next push, or if
  /// another worker's earlier push is missing.
  void push(int worker, std::int64_t step, std::int64_t number = 0);
  /// The number of steps of which the worker has pushed every gradient.
  std::int64_t pushed(int worker) const {
    return pushed_[static_cast<std::size_t>(worker)] / pushes_;
  }
  /// The number of steps of which every worker has pushed every gradient. Workers may read the
  /// values that this number of updates has produced.
  std::int64_t complete() const;

 private:
  std::int64_t least() const;
  std::string text(std::int64_t step, std::int64_t number) const;

  std::int64_t pushes_;
  std::vector<std::int64_t> pushed_;
};

}  // namespace ringside::ps
