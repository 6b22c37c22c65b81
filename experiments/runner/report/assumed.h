// Notes below a table that list the assumed figures of its simulated clusters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/sim/cluster.h"

namespace ringside::runner {

/// The assumed figures of one cluster.
struct AssumedOf {
  std::string cluster;
  std::vector<sim::Assumed> assumed{};
  bool operator==(const AssumedOf&) const = default;
};

/// A line for each cluster with assumed figures. Equal ones are named once.
std::string assumed_text(const std::vector<AssumedOf>& clusters);

}  // namespace ringside::runner
