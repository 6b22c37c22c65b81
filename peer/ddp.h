// Distributed data parallel: gradient buckets, all-reduced while backward goes on.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"

namespace ringside::peer {

struct DdpOptions {
  double bucket_mb = 25;
};

Fields fields_of(DdpOptions& options);

/// Throws Error for values that cannot be.
void check(const DdpOptions& options);

/// Every rank holds everything (Li et al., VLDB 2020). With train.reduce "every" the gradients of a
/// micro-batch are reduced while the next one is computed, and added up in a second whole gradient.
/// Bytes a rank and reduction: 2 (N-1)/N of the gradient.
std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options);

double ddp_minimum_bytes(const StepShape& shape);

}  // namespace ringside::peer
