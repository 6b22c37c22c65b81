// The servers of schemes whose workers take local steps: their options, parts and bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/plan/run_plan.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/scheme_info.h"
#include "ps/protocol/partition.h"
#include "ps/protocol/server_config.h"
#include "ps/schemes/server_options.h"

namespace ringside::ps {

/// The servers, which keep fp32 values of the model, in chunks of at most 1 MB. `placement` is
/// dedicated or colocated.
struct LocalServers {
  std::int64_t servers = 1;
  Placement placement = Placement::dedicated;
  ServerDevice server_device = ServerDevice::same;
  TransportKind transport = TransportKind::automatic;
  std::int64_t port = 0;
  Reach reach{};
};
/// The fields of a scheme's options, and those of its servers, by name.
Fields with_servers(LocalServers& servers, Fields fields);

/// Throws Error for servers that are not possible, and for a plan whose workers cannot take local
/// steps: fp16, batch norms over ranks, gradients that are reduced at every micro-batch.
void check_local_servers(const LocalServers& servers, const RunPlan& plan);
/// Throws Error for workers with different shares of a step.
void check_equal_shares(const RunPlan& plan);

ServerCounts count_servers(const LocalServers& servers, int world);
std::vector<Chunk> chunks_of(const Model& model, const RunPlan& plan);
TransportOptions local_transport(const RankContext& context, const LocalServers& servers);

/// SGD, with Nesterov's momentum if that is not 0: the outer optimizer of differences.
OptimizerConfig outer_sgd(double lr, double momentum);
/// The configuration of a server of fp32 values whose updates `optimizer` makes.
ServerConfig local_server_config(const RankContext& context, std::uint64_t token,
                                 const OptimizerConfig& optimizer);

/// The fewest bytes that the busiest rank sends in a step where `pushing` workers exchange fp32
/// values once in `period` steps. With P bytes of values and S servers, a worker sends P, and a
/// dedicated server pushing * P / S, in each exchange; what a rank gives to a server of its own
/// does not leave it.
double exchange_bytes(const StepShape& shape, const LocalServers& servers, double pushing,
                      std::int64_t period);

}  // namespace ringside::ps
