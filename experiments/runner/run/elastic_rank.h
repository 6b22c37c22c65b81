// A process of an elastic run: one rank after the other, as the world changes.
#pragma once

#include <string>

#include "core/launch/launch.h"

namespace ringside::runner {

/// Runs the rank that the process was started as, or waits for its first place where the plan's
/// generation is negative; then whatever rank the launcher makes of it, until it is dismissed
/// (core/launch/elastic_run.h). The process reads the samples once; device and model are made anew
/// for each place, and the state comes from copies in the host's memory. Blocks. Returns whether
/// the process has done its part; if not, the launcher knows the cause. `program` is
/// RankContext::program.
bool run_elastic_rank(LauncherLink& link, const std::string& program);

}  // namespace ringside::runner
