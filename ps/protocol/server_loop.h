// The loop in which a server receives and answers messages.
#pragma once

#include "core/observe/rank_record.h"
#include "core/scheme/rank_context.h"
#include "ps/protocol/channel.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

/// Receives messages, lets `server` handle them and sends the replies until every worker is done.
/// Before, brings the server to RunPlan::resume; meanwhile, writes its part of checkpoints.
/// Blocks. Returns the server's part of this rank's record: bytes and optimizer time of a measured
/// step, memory, elements of the model. Throws Error that names the worker when a worker fails, is
/// gone, or is silent for train.timeout_s; the error is sent to the other workers first.
RankRecord serve(const RankContext& context, Channel& channel, Server& server,
                 std::int64_t parameters);

}  // namespace ringside::ps
