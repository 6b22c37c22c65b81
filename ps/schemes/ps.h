// The scheme "ps": parameter servers, each of which updates its part of the parameters.
#pragma once

#include <memory>

#include "core/observe/rank_record.h"
#include "core/scheme/scheme_info.h"
#include "ps/schemes/ps_options.h"

namespace ringside::ps {

/// Every worker holds a replica (Li et al., OSDI 2014). A worker pushes a unit's gradient right
/// after the unit's last backward, in chunks of at most `partition_mb`; the server answers each
/// chunk with its updated values as soon as the consistency allows. The worker receives values
/// between the computations of units, and a unit's next forward waits only for the unit's own
/// values. If the optimizer needs sums over the model before an update, the worker pulls the values
/// after these sums. With asp, ssp and backup workers, a worker waits for others only as far as the
/// policy requires (ps/protocol/consistency.h): every worker evaluates the values that it has, and
/// with asp the run ends after steps * N steps of any workers, so that a fast worker does more of
/// them (unless `equal_steps`); easgd is described in ps/schemes/easgd.h. A gradient is then a mean
/// over the samples of the gradients that make an update. The run's parameters are those of the
/// servers when all workers are done. With N workers, S servers, parameters of P bytes, and R
/// gradients of each parameter in a step, a worker sends R * P bytes in a step and a server sends N
/// * P / S bytes. With `sum_group` = G above 1 (ps/schemes/sum_group.h) both send G times fewer
/// bytes, and a worker sends (R + 1) * P * (G - 1) / G bytes to the others of its group besides.
std::unique_ptr<SyncScheme> make_ps(const RankContext& context, const PsOptions& options);

/// The order in which a run adds up gradients: with groups of workers, within the groups first.
SumOrder ps_order(const PsOptions& options, const RunPlan& plan);
/// The definition of a run with an order of its own; or of a run that is not bulk synchronous,
/// which replays RunPlan::history.
std::unique_ptr<SyncScheme> define_ps(const RankContext& context, const PsOptions& options);

/// Runs a server until all workers are done; see ps/protocol/server_loop.h.
RankRecord serve_ps(const RankContext& context, const PsOptions& options, Model& model,
                    const Loader& loader);

/// The fewest bytes that the busiest rank must send in a step; for N, S, P, R and G see make_ps().
/// A worker sends W = (R + 1) * P * (G - 1) / G bytes within its group, and pushes p = P / G bytes
/// R times. With dedicated servers: max(W + R * p, N * p / S). A rank that also has a server, which
/// keeps K bytes, pushes all parts but those of its own server, and sends its server's values to
/// the other workers that push them. Its server keeps what the worker pushes itself, as far as
/// possible, which are k = min(K, p) bytes; so the rank sends W + R * (p - k) + K * N / G - k. With
/// colocated servers K is P / S, and a rank that has only a worker sends W + R * p. With servers
/// mixed, K and the C bytes of a dedicated server follow from shares_of_servers(); a dedicated one
/// sends C * N / G. With easgd all of these, of fp32 values, are divided by the communication
/// period.
///
/// A run reaches this minimum, except where more than G servers, and no multiple of G, are
/// colocated with workers. Then c = S / G, rounded up, of them are colocated with workers that push
/// the same p bytes. Since all servers keep equal parts, the ranks of these send W + R * (p - p /
/// c) + K * N / G - p / c bytes.
double ps_minimum_bytes(const StepShape& shape, const PsOptions& options);

/// The scheme's info, for the registry.
SchemeInfo ps_info();

}  // namespace ringside::ps
