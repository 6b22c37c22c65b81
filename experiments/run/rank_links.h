// Times the network between the hosts of a run (Purpose::links).
#pragma once

#include "core/observe/record.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// What a rank of such a run does. There is one worker on each host, and one server, which shares a
/// host with worker 0. All workers make collectives, and the last one then sends messages to the
/// server. Blocks for some seconds. The record of the last worker has LinkTimes.
RankRecord time_links(const RankContext& context);

}  // namespace ringside
