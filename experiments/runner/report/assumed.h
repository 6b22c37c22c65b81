// Notes below a table on which figures of its simulated clusters are assumed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/sim/cluster.h"

namespace ringside::runner {

/// What was assumed of one cluster.
struct AssumedOf {
  std::string cluster;
  std::vector<sim::Assumed> assumed{};
  bool operator==(const AssumedOf&) const = default;
};

/// A line for each cluster of which something was assumed. Equal ones are named once.
std::string assumed_text(const std::vector<AssumedOf>& clusters);

}  // namespace ringside::runner
