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

/// Throws Error for option values that are not allowed.
void check(const DdpOptions& options);

/// Every rank holds the whole model, gradient and optimizer state (Li et al., VLDB 2020). With
/// train.reduce "every" the gradients of a micro-batch are reduced while the next micro-batch is
/// computed. The reduced gradients are added up in a second whole gradient. In each reduction
/// over N ranks, a rank sends 2 * (N - 1) / N times the bytes of the gradient.
std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options);

double ddp_minimum_bytes(const StepShape& shape);

}  // namespace ringside::peer
