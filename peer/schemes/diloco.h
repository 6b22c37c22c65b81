// DiLoCo: replicas that take many local steps, and an outer optimizer of their differences.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/compress/compression.h"
#include "core/scheme/scheme_info.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {

struct DilocoOptions {
  std::int64_t sync_every = 500;
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::int64_t num_fragments = 1;
  std::int64_t fragment_sync_delay = 0;
  double fragment_update_alpha = 0;
  CompressionOptions compression{};
  DistanceOptions distance{};
};

Fields fields_of(DilocoOptions& options);

/// DiLoCo (Douillard et al. 2023, arXiv 2311.08105, algorithm 1). All workers begin with the same
/// global values x. Every worker takes `sync_every` local steps with its own optimizer (the inner
/// one, [optimizer]), whose moments stay its own, and gives the difference d = x - (its replica).
/// With the mean of all d as gradient, SGD with Nesterov's momentum (the outer optimizer) updates
/// x, from which all replicas go on. Workers exchange after the last step too.
///
/// In each exchange over N workers, a worker sends 2 * (N - 1) / N times the bytes of the
/// parameters in fp32. A worker holds x and the outer momentum besides its replica: 8 bytes a
/// parameter.
///
/// With several fragments it is Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512,
/// algorithm 2): consecutive units form fragments of about equal size, which take turns, so that
/// each is exchanged once in `sync_every` steps. A fragment's messages move during the next
/// `fragment_sync_delay` steps; then the replica becomes alpha * (its own values) + (1 - alpha) *
/// x, with alpha = `fragment_update_alpha`. After the last step it becomes x. (The paper's
/// fragments are strided layers; here they are neighbours.)
///
/// A compressor (core/compress) compresses the differences d, with a memory of its own.
///
/// The consensus distance is that of the replicas, not of the differences as they were compressed.
SchemeInfo diloco_info();

/// The rule alone, as a test holds it against the paper.
std::unique_ptr<LocalRule> make_diloco_rule(const RuleContext& context,
                                            const DilocoOptions& options);

}  // namespace ringside::peer
