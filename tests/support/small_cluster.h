// The small cluster of `ringside check-scheme`, for tests of rooms below it too.
#pragma once

#include "experiments/tools/check/small_cluster.h"

namespace ringside::testing {

using tools::check::small_cluster;

}  // namespace ringside::testing
