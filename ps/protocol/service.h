// The loop around a server.
#pragma once

#include "core/observe/record.h"
#include "core/scheme/rank_context.h"
#include "ps/protocol/channel.h"
#include "ps/protocol/server.h"

namespace ringside::ps {

/// Receives, handles and replies until every worker is done. Returns the part of this rank's
/// record that servers know: bytes and optimizer time of a measured step, memory, elements of the
/// model. Throws Error that names the worker when one gives up, is gone, or says nothing for
/// train.timeout_s; the other workers are told first.
RankRecord serve(const RankContext& context, Channel& channel, Server& server,
                 std::int64_t parameters);

}  // namespace ringside::ps
