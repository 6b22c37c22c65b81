// Distributed data parallel: gradient buckets, all-reduced while backward goes on.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/comm/algorithm.h"
#include "core/compress/compression.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

struct DdpOptions {
  double bucket_mb = 25;
  Algorithm algorithm = Algorithm::native;
  bool overlap = true;
  CompressionOptions compression{};
};

Fields fields_of(DdpOptions& options);

/// Throws Error for option values that are not allowed, or not possible with the plan.
void check(const DdpOptions& options, const RunPlan& plan);

/// Every rank holds the whole model, gradient and optimizer state (Li et al., VLDB 2020). With
/// train.reduce "every" the gradients of a micro-batch are reduced while the next micro-batch is
/// computed. Without `overlap` all buckets are reduced after backward, and nothing is computed
/// meanwhile. The reduced gradients are added up in a second whole gradient. In each reduction
/// over N ranks, a rank sends 2 * (N - 1) / N times the bytes of the gradient, or what the
/// algorithm says (peer/comm/algorithms).
///
/// With a compressor (core/compress) it is an algorithm of its own: workers sum what the compressor
/// makes of their gradients, and all make the same update of that. A worker sends what
/// compressed_bytes() says, and encodes and decodes each bucket on its device.
///
/// With P parameters of p bytes, train.reduce_precision of r bytes adds to the P * p bytes of the
/// gradient: if r > p, a second whole gradient of P * r bytes, in which ranks sum; if r < p, P * r
/// bytes of kind communication at the end of backward, for the buckets on their way.
std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options);

/// The order in which a run adds up; define_ddp() repeats an order of its own on one rank.
SumOrder ddp_order(const DdpOptions& options, const RunPlan& plan);
std::unique_ptr<SyncScheme> define_ddp(const RankContext& context, const DdpOptions& options);

double ddp_minimum_bytes(const StepShape& shape, const DdpOptions& options = {});

/// The scheme's info, for the registry.
SchemeInfo ddp_info();

}  // namespace ringside::peer
