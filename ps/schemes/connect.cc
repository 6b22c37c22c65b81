#include "ps/schemes/connect.h"

#include "core/base/error.h"

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

/// A worker waits a little longer than a server, because the server knows which worker is missing.
constexpr double grace = 1.1;

std::unique_ptr<Client> connect(const RankContext& context, Transport& transport,
                                TransportOptions options) {
  options.timeout_s *= grace;
  Connection connection = transport.connect(context, options);
  const ClientConfig config{.worker = context.self().worker,
                            .servers = context.plan.servers,
                            .token = connection.token,
                            .timeout_s = options.timeout_s};
  return std::make_unique<Client>(std::move(connection.channel), config, context.device.clock(),
                                  context.timeline);
}

void check_transport(std::string_view scheme, const std::string& transport, std::int64_t port,
                     std::int64_t servers) {
  if (transport != "ipc" && transport != "tcp")
    throw Error("scheme.{}.transport = '{}': choose ipc or tcp", scheme, transport);
  if (port != 0 && transport != "tcp")
    throw Error("scheme.{}.port = {}: only transport tcp has ports", scheme, port);
  if (port < 0 || port + servers - 1 > 65535)
    throw Error(
        "scheme.{}.port = {}: the ports of {} servers must be from 1 to 65535; "
        "choose 0 for any free ports",
        scheme, port, servers);
}

void check_placement(std::string_view scheme, const std::string& placement,
                     const std::string& server_device) {
  if (server_device != "same" && server_device != "cpu")
    throw Error("scheme.{}.server_device = '{}': choose same or cpu", scheme, server_device);
  if (placement != "dedicated" && placement != "beside")
    throw Error("scheme.{}.placement = '{}': choose dedicated or beside", scheme, placement);
}

}  // namespace ringside::ps
