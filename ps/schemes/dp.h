// Classic DataParallel: one master that scatters and gathers.
#pragma once

#include <memory>
#include <string>

#include "core/base/fields.h"
#include "core/observe/record.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"

namespace ringside::ps {

struct DpOptions {
  std::string placement = "beside";
  std::string server_device = "same";
  std::string transport = "ipc";
  std::int64_t port = 0;
};

Fields fields_of(DpOptions& options);

/// Throws Error for values that cannot be.
void check(const DpOptions& options);
inline std::int64_t server_count(const DpOptions&) { return 1; }
/// Whether servers need more of their device than flat operations.
inline bool computes_losses(const DpOptions&) { return true; }

/// The master reads the global batch and hands every worker its inputs, then, once a step, the
/// parameters; it gets the logits, computes the loss and hands out its gradient; it sums the
/// workers' gradients and updates. One step after the other: nothing is hidden behind compute.
/// Evaluation reads and computes at the workers, with the master's parameters. Bytes a step, P of
/// the parameters, I and L of the inputs and logits of the global batch: the master sends
/// N P + I + L, a worker R P + L / N where it pushes R gradients.
std::unique_ptr<SyncScheme> make_dp(const RankContext& context, const DpOptions& options);

/// What the master's rank does until all workers are done; see ps/protocol/service.h. `loader`
/// reads the training data.
RankRecord serve_dp(const RankContext& context, const DpOptions& options, Model& model,
                    const Loader& loader);

/// Of the master's rank: N P + I + L, dedicated; (N - 1) (P + (I + L) / N), beside worker 0; or of
/// a worker of its own, R P + L / N.
double dp_minimum_bytes(const StepShape& shape, const DpOptions& options);

}  // namespace ringside::ps
