// 1-bit Adam: AdamW, until its second moment is frozen; then only the signs of momenta are sent.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/fields.h"
#include "core/scheme/scheme_info.h"

namespace ringside::peer {

struct OnebitAdamOptions {
  std::int64_t freeze_step = 100'000;
  double bucket_mb = 25;
};

Fields fields_of(OnebitAdamOptions& options);

/// 1-bit Adam (Tang et al., ICML 2021, algorithm 1). Every rank holds the whole model, gradient and
/// optimizer state. In the first `freeze_step` steps gradients are all-reduced as `ddp` does, while
/// backward goes on, and updated by AdamW: of N ranks with n parameters of e bytes a rank sends
/// 2 (N-1)/N n e bytes a step. Then the second moment is frozen, and workers agree on the momentum
/// alone, in two exchanges of signs (peer/schemes/onebit_momentum.h): an all-to-all of chunks, and
/// an all-gather of the servers' answers. A rank sends 2 (N-1)/N (n/8 + 4 for each tensor), after
/// backward, and holds 4 n (1 + 1/N) bytes of errors besides.
///
/// Two details differ from DeepSpeed: magnitudes are those of each tensor in a chunk, and not one
/// for the model; and the corrections of AdamW's biases stay (FrozenAdam), so that nothing jumps
/// when the second moment is frozen.
///
/// attach() throws nothing; step() blocks until the momenta of all workers are here.
std::unique_ptr<SyncScheme> make_onebit_adam(const RankContext& context,
                                             const OnebitAdamOptions& options);
/// One rank that gives, combines and takes as all workers do, in their order.
std::unique_ptr<SyncScheme> define_onebit_adam(const RankContext& context,
                                               const OnebitAdamOptions& options);

SchemeInfo onebit_adam_info();

}  // namespace ringside::peer
