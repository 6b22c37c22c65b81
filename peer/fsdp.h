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

/// Full shard per unit (Zhao et al., VLDB 2023; ZeRO stage 3, Rajbhandari et al., SC'20). A unit is
/// all-gathered before its forward and again before its backward, and freed after each; its
/// gradient is reduce-scattered after backward; the optimizer runs on the shard. At most two units
/// are gathered at any time, and one more unit while a unit that reads its parameters is computed;
/// at most two whole gradients are alive (kind communication). Gradients are added up over ranks
/// first, then over micro-batches. With train.reduce "last" every rank adds up whole gradients of
/// its own (kind gradient, as large as the model), and these are reduce-scattered once a step.
/// Bytes that a rank sends, as multiples of the parameters' bytes with each unit padded to a
/// multiple of N elements: 2 (N-1)/N a micro-batch, (N-1)/N more for units that other units read,
/// (N-1)/N a reduction.
std::unique_ptr<SyncScheme> make_fsdp(const RankContext& context, const FsdpOptions& options);

double fsdp_minimum_bytes(const StepShape& shape);

}  // namespace ringside::peer
