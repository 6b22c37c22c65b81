// Timing of the network between the hosts of a run (Purpose::links).
#pragma once

#include "core/observe/rank_record.h"
#include "core/scheme/rank_context.h"

namespace ringside::runner {

/// Runs a rank of a run that times links. Each host has one worker; one server shares the host of
/// worker 0. All workers make collectives. Then the last worker sends messages to the server over
/// the network, and the first worker within their host. Blocks for some seconds. The records of
/// these two workers have LinkTimes.
RankRecord time_links(const RankContext& context);

}  // namespace ringside::runner
