// The connections that all schemes with servers set up from a plan.
#pragma once

#include <memory>

#include "ps/protocol/client.h"
#include "ps/protocol/server_config.h"
#include "ps/protocol/transport.h"

namespace ringside::ps {

/// The number of gradients of one chunk that a worker pushes in a step.
inline std::int64_t pushes_a_step(const TrainConfig& train) {
  return train.reduce == Reduce::every ? train.accumulation : 1;
}

/// The configuration of this rank's server, according to the plan.
ServerConfig server_config(const RankContext& context, std::uint64_t token);

/// Makes the client through which a worker reaches all servers; workers push in groups of `group`.
/// Blocks until all servers listen.
std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options, int group = 1);

}  // namespace ringside::ps
