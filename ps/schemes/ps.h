// The scheme "ps": parameter servers, each of which updates its part of the parameters.
#pragma once

#include <memory>

#include "core/observe/record.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// Every worker holds a replica (Li et al., OSDI 2014). A worker pushes a unit's gradient right
/// after the unit's last backward, in chunks of at most `partition_mb`; the server answers each
/// chunk with its updated values as soon as the consistency allows. The worker receives values
/// between the computations of units, and a unit's next forward waits only for the unit's own
/// values. If the optimizer needs sums over the model before an update, the worker pulls the values
/// after these sums. With asp and ssp, and with backup workers, no worker waits for another beyond
/// what the policy says (ps/protocol/consistency.h): every worker evaluates the values that it has,
/// and with asp the run ends after steps * N steps of any workers, so that a fast worker does more
/// of them (unless `equal_steps`); easgd is described in ps/schemes/easgd.h. A gradient is then a
/// mean over the samples of the gradients that make an update. The run's parameters are those of
/// the servers when all workers are done. With N workers, S servers, parameters of P bytes, and R
/// gradients of each parameter in a step, a worker sends R * P bytes in a step and a server sends
/// N * P / S bytes.
std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options);

/// The definition of a run that is not bulk synchronous: replays RunPlan::history.
std::unique_ptr<SyncScheme> define_ps(const RankContext& context, const PsOptions& options);

/// What a server's rank does until all workers are done; see ps/protocol/service.h.
RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader& loader);

/// The fewest bytes that the busiest rank must send in a step; for N, S, P and R see make_ps().
/// With dedicated servers: max(R * P, N * P / S). With servers beside workers, a rank that has both
/// sends R * P * (S - 1) / S bytes of gradients, those of all parts except its own server's. It
/// also sends (N - 1) * P / S bytes of values: its server's part to each of the other workers. A
/// rank that has only a worker sends R * P bytes. With servers mixed, of which a dedicated one
/// keeps C bytes and a worker's own G (shares_of_servers()), a dedicated one sends N * C bytes and
/// the rank of a worker R * (P - G) + (N - 1) * G. With easgd all of these, of fp32 values, are
/// divided by the communication period.
double ps_minimum_bytes(const StepShape& shape, const PsOptions& options);

}  // namespace ringside::ps
