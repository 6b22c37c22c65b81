// Fully sharded data parallel: every rank keeps 1/N of parameters, gradients and optimizer state.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"

namespace ringside::peer {

struct FsdpOptions {
  std::int64_t prefetch = 1;
};

Fields fields_of(FsdpOptions& options);

/// Throws Error for option values that are not allowed.
void check(const FsdpOptions& options);

/// Shards each unit fully (Zhao et al., VLDB 2023; ZeRO stage 3, Rajbhandari et al., SC'20). A unit
/// is all-gathered before its forward and again before its backward, and freed after each; its
/// gradient is reduce-scattered after backward; the optimizer runs on the shard. At most two units
/// are gathered at any time, and one more if the computed unit reads the parameters of another unit
/// (Unit::lender); at most two whole gradients are alive (MemoryKind::communication). Gradients are
/// added up over ranks first, then over micro-batches. With train.reduce "last" every rank adds up
/// whole gradients of its own (MemoryKind::gradient, as large as the model), and these are
/// reduce-scattered once a step. In a micro-batch a rank sends 2 * (N-1)/N of the parameters'
/// bytes, and also (N-1)/N of the bytes of those units whose parameters other units read. In each
/// reduction of the gradients it sends (N-1)/N of the parameters' bytes. All these bytes include
/// the padding of each unit to a multiple of N elements.
std::unique_ptr<SyncScheme> make_fsdp(const RankContext& context, const FsdpOptions& options);

double fsdp_minimum_bytes(const StepShape& shape);

}  // namespace ringside::peer
