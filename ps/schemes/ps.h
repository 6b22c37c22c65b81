// Parameter servers: sharded, each updates its part.
#pragma once

#include <memory>
#include <string>

#include "core/base/fields.h"
#include "core/observe/record.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"

namespace ringside::ps {

struct PsOptions {
  std::int64_t servers = 2;
  std::string placement = "dedicated";
  std::string server_device = "same";
  std::string consistency = "bsp";
  std::string transport = "ipc";
  std::int64_t port = 0;
};

Fields fields_of(PsOptions& options);

/// Throws Error for values that cannot be.
void check(const PsOptions& options);
inline std::int64_t server_count(const PsOptions& options) { return options.servers; }
/// Whether servers need more of their device than flat operations.
inline bool computes_losses(const PsOptions&) { return false; }

/// Workers hold a replica (Li et al., OSDI 2014). They push every unit's gradient right after its
/// last backward, in chunks of at most 1 MB that are answered with the updated values; these are
/// taken in between the units' computations, and a unit's next forward waits for its own. Bytes a
/// step, P those of the parameters: a worker sends P for every gradient that it pushes, R a step, a
/// server N P / S. Where the optimizer wants sums over the model, the values are pulled after them.
std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options);

/// What the rank of a server does until all workers are done; see ps/protocol/service.h.
RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader& loader);

/// Dedicated: max(R P, N P / S). Beside: the rank of worker i and server i sends the gradients but
/// for its own part, and new values of its part to the other workers, R P (S - 1) / S +
/// (N - 1) P / S; a rank with a worker alone sends R P.
double ps_minimum_bytes(const StepShape& shape, const PsOptions& options);

}  // namespace ringside::ps
