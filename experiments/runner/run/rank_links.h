// Timing of the network between the hosts of a run (Purpose::links).
#pragma once

#include "core/observe/rank_record.h"
#include "core/scheme/rank_context.h"

namespace ringside::runner {

/// Runs a rank of such a run. There is one worker on each host, and one server, which shares a host
/// with worker 0. All workers make collectives. Then the last one sends messages to the server over
/// the network, and the first one within their host. Blocks for some seconds. The records of these
/// two have LinkTimes.
RankRecord time_links(const RankContext& context);

}  // namespace ringside::runner
