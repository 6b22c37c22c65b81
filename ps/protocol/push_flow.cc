#include "ps/protocol/push_flow.h"

#include <limits>

#include "core/num/random.h"

namespace ringside::ps {

std::int64_t push_flow(int worker, std::int64_t step, std::int64_t push, std::int64_t begin) {
  const auto first = static_cast<std::uint64_t>(begin);
  const auto bits = philox({static_cast<std::uint32_t>(worker), static_cast<std::uint32_t>(step),
                            static_cast<std::uint32_t>(push), static_cast<std::uint32_t>(first)},
                           {static_cast<std::uint32_t>(first >> 32), 0});
  const std::uint64_t mixed = std::uint64_t{bits[0]} << 32 | bits[1];
  // Below 0, as every number of the whole run.
  return -1 - static_cast<std::int64_t>(mixed & std::numeric_limits<std::int64_t>::max());
}

}  // namespace ringside::ps
