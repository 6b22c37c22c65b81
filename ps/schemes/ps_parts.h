// Parts of `ps` that its workers and servers share under every consistency.
#pragma once

#include <vector>

#include "ps/protocol/partition.h"
#include "ps/protocol/transport.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// The chunks of the model, each with its server and the workers (of `world`) that push it, in the
/// order of Chunk::begin.
std::vector<Chunk> chunks_of(const Model& model, int world, const PsOptions& options);
ServerConfig server_config(const RankContext& context, std::uint64_t token,
                           const PsOptions& options);
TransportOptions transport_options(const RankContext& context, const PsOptions& options);

}  // namespace ringside::ps
