// The interleaved measurements of `ringside bench ps` at one number of workers and servers.
#pragma once

#include <functional>

#include "experiments/tools/bench/ps_bench.h"

namespace ringside::tools::bench {

/// Measures every size in every way of the bench, and then reports the rows. `ranks` are `workers`
/// workers, then the dedicated servers; `bounds` comes from start_bounds(). Throws Error as
/// RankGroup does.
void run_ps_contest(const PsBench& bench, int workers, int servers, RankGroup& ranks,
                    RankGroup& bounds, const std::function<void(const PsRow&)>& report);

}  // namespace ringside::tools::bench
