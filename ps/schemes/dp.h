// Classic DataParallel: one master that scatters parameters and gathers gradients.
#pragma once

#include <memory>

#include "core/base/fields.h"
#include "core/observe/rank_record.h"
#include "core/scheme/scheme_info.h"
#include "ps/schemes/server_options.h"

namespace ringside::ps {

struct DpOptions {
  Placement placement = Placement::colocated;
  ServerDevice server_device = ServerDevice::same;
  TransportKind transport = TransportKind::automatic;
  std::int64_t port = 0;
  Reach reach{};
};

Fields fields_of(DpOptions& options);

/// Throws Error for option values that are not allowed.
void check(const DpOptions& options, const RunPlan& plan);
inline ServerCounts count_servers(const DpOptions& options, int world) {
  return count_servers(options.placement, 1, world);
}

/// The master reads the global batch and sends every worker its inputs and, once a step, the
/// parameters. The workers send back the logits; the master computes the loss, sends out the
/// gradient of the logits, sums the workers' gradients and updates. These actions run one after
/// another: no communication is hidden behind compute. In an evaluation the workers read the data
/// and compute the loss themselves, with the master's parameters. Let N be the number of workers, P
/// the bytes of the parameters, and I and L the bytes of the inputs and the logits of the global
/// batch. In a step the master sends N * P + I + L bytes, and a worker that pushes each gradient R
/// times sends R * P + L / N bytes.
std::unique_ptr<SyncScheme> make_dp(const RankContext& context, const DpOptions& options);

/// Runs the master until all workers are done; see ps/protocol/server_loop.h. `loader` reads the
/// training data.
RankRecord serve_dp(const RankContext& context, const DpOptions& options, Model& model,
                    const Loader& loader);

/// The bytes that the busiest rank must send in a step. With the letters of make_dp(), a dedicated
/// master sends N * P + I + L bytes, a master colocated with worker 0 sends (N - 1) * (P + (I + L)
/// / N), and a worker on a rank of its own sends R * P + L / N.
double dp_minimum_bytes(const StepShape& shape, const DpOptions& options);

/// The scheme's info, for the registry.
SchemeInfo dp_info();

}  // namespace ringside::ps
