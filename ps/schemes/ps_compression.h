// Compression of what workers of `ps` push and pull.
#pragma once

#include <memory>

#include "core/scheme/scheme_info.h"
#include "ps/protocol/server_config.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// Whether pushes or pulls are compressed.
bool compresses(const PsOptions& options);
/// The codes of pushes, with their memory of errors, and of pulls, which need none: what workers
/// read are differences from what they have.
ChunkCompression compression_of(const PsOptions& options, const RunPlan& plan);
/// Throws Error for compression that is not possible with the plan, or with servers: a server
/// decodes each message by itself.
void check_ps_compression(const PsOptions& options, const RunPlan& plan);

/// The fewest bytes that the busiest rank sends in a step. With the letters of make_ps(), and p and
/// q bytes of codes of the whole model for pushes and pulls, a worker sends p bytes and a server N
/// * q / S bytes, without what stays within a rank.
double compressed_ps_bytes(const StepShape& shape, const PsOptions& options);

/// The definition of a bulk synchronous run.
std::unique_ptr<SyncScheme> define_compressed_ps(const RankContext& context,
                                                 const PsOptions& options);

}  // namespace ringside::ps
