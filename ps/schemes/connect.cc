#include "ps/schemes/connect.h"

#include <algorithm>

#include "core/plan/worlds.h"
#include "ps/protocol/greeting.h"
#include "ps/schemes/placement.h"

namespace ringside::ps {

ServerConfig server_config(const RankContext& context, std::uint64_t token) {
  const RunPlan& plan = context.plan;
  return {.server = context.self().server,
          .workers = plan.world,
          .token = token,
          .initial_values = initial_values(context),
          .dtype = parameter_dtype(plan.train),
          .optimizer = plan.optimizer,
          .steps = plan.train.steps,
          .pushes = pushes_a_step(plan.train),
          .warmup = plan.train.warmup,
          .skips = skips_steps(plan.train)};
}

namespace {

/// Whether colocated and dedicated servers both keep a part of the model; their parts differ.
bool has_servers_of_both_kinds(const RunPlan& plan, int group) {
  const auto count = [&](bool colocated) {
    return std::ranges::count_if(plan.ranks, [&](const RankPlan& rank) {
      return rank.server >= 0 && (rank.worker >= 0) == colocated;
    });
  };
  const std::int64_t dedicated = count(false);
  if (dedicated == 0 || count(true) == 0) return false;
  const auto shares = shares_of_servers(Placement::mixed, dedicated, plan.world, group);
  return shares.front() > 0 && shares.back() > 0;
}

/// A worker's timeout is longer than a server's by this factor. So if a worker is missing, the
/// server's error comes first, which names that worker.
constexpr double grace = 1.1;

}  // namespace

std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options, int group) {
  options.timeout_s *= grace;
  Connection connection = transport.connect(context, options);
  const ClientConfig config{.worker = context.self().worker,
                            .servers = context.plan.servers,
                            .token = connection.token,
                            .timeout_s = options.timeout_s,
                            .greeting = greeting_of(context.plan, context.program),
                            .process = process_in_seat(context.plan),
                            .paced = has_servers_of_both_kinds(context.plan, group)};
  return std::make_unique<Client>(std::move(connection.channel), config, context.device.clock(),
                                  context.timeline);
}

}  // namespace ringside::ps
