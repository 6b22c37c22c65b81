// The lower bounds of a case's traffic and step time, and its distance from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/tools/explain/evidence.h"

namespace ringside {

struct Bounds {
  double sent_bytes = 0, least_bytes = 0;  // of the busiest rank, in a step
  /// The time of the least bytes over the rank's link; none where the link is not known, and where
  /// ranks read each other's memory.
  std::optional<double> link_ms{};
  double link_gbs = 0;
  /// The time of a step in which workers only compute and update, and the source of this figure:
  /// "single", "its own compute".
  double compute_ms = 0;
  std::string compute_of{};
};

/// Of the cases that were measured beside this one, `independent` at the same world says best what
/// computing alone takes, and then `single`, whose step is divided by the world. Without them it is
/// the compute of the fastest rank, or of an average one without a trace.
Bounds bounds_of(const Evidence& evidence, const std::vector<Evidence>& all);

}  // namespace ringside
