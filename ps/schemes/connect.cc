#include "ps/schemes/connect.h"

#include <algorithm>

#include "ps/protocol/greeting.h"

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
          .warmup = plan.train.warmup};
}

/// Whether some servers live beside workers and others do not; these keep parts of another size.
bool has_servers_of_both_kinds(const RunPlan& plan) {
  const auto has = [&](bool beside) {
    return std::ranges::any_of(plan.ranks, [&](const RankPlan& rank) {
      return rank.server >= 0 && (rank.worker >= 0) == beside;
    });
  };
  return has(true) && has(false);
}

/// A worker's timeout is longer than a server's by this factor. So if a worker is missing, the
/// server's error comes first, which names that worker.
constexpr double grace = 1.1;

std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options) {
  options.timeout_s *= grace;
  Connection connection = transport.connect(context, options);
  const ClientConfig config{.worker = context.self().worker,
                            .servers = context.plan.servers,
                            .token = connection.token,
                            .timeout_s = options.timeout_s,
                            .greeting = greeting_of(context.plan, context.program),
                            .paced = has_servers_of_both_kinds(context.plan)};
  return std::make_unique<Client>(std::move(connection.channel), config, context.device.clock(),
                                  context.timeline);
}

}  // namespace ringside::ps
