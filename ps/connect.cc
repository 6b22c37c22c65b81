#include "ps/connect.h"

#include <charconv>
#include <random>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

constexpr const char* token_key = "ps.token";
std::string endpoint_key(int server) { return fmt::format("ps.server.{}", server); }

const RankPlan& self(const RankContext& context) {
  return context.plan.ranks[static_cast<std::size_t>(context.rank)];
}

std::shared_ptr<Hub> hub_of(const RankContext& context) {
  return context.shared ? context.shared->get<Hub>() : std::make_shared<Hub>();
}

/// Not for secrets that must last: for telling the messages of one run on this host from others.
std::uint64_t draw_token() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

std::uint64_t shared_token(const RankContext& context) {
  const std::string text = context.store.get(token_key, context.plan.train.timeout_s);
  std::uint64_t token = 0;
  std::from_chars(text.data(), text.data() + text.size(), token, 16);
  return token;
}

}  // namespace

Listening listen(const RankContext& context, const ZmqOptions& options) {
  const int server = self(context).server;
  if (server == 0) context.store.set(token_key, fmt::format("{:016x}", draw_token()));
  const std::uint64_t token = shared_token(context);
  ServerEnd end = open_server(context.device, hub_of(context), token, server, options);
  context.store.set(endpoint_key(server), end.endpoint);
  return {std::move(end.channel), token};
}

ServerConfig server_config(const RankContext& context, std::uint64_t token) {
  const RunPlan& plan = context.plan;
  return {.server = self(context).server,
          .workers = plan.world,
          .token = token,
          .seed = static_cast<std::uint64_t>(plan.train.seed),
          .optimizer = plan.optimizer,
          .steps = plan.train.steps,
          .warmup = plan.train.warmup};
}

/// A worker waits a little longer than a server, who knows which worker is missing.
constexpr double grace = 1.1;

std::unique_ptr<Client> connect(const RankContext& context, const ZmqOptions& options) {
  const RunPlan& plan = context.plan;
  const ClientConfig config{.worker = self(context).worker,
                            .servers = plan.servers,
                            .token = shared_token(context),
                            .timeout_s = grace * plan.train.timeout_s};
  std::vector<std::string> endpoints;
  for (int server = 0; server < plan.servers; ++server) {
    const bool beside = context.shared && self(context).server == server;
    endpoints.push_back(beside ? local_endpoint(server)
                               : context.store.get(endpoint_key(server), config.timeout_s));
  }
  return std::make_unique<Client>(
      connect_worker(context.device, hub_of(context), config.token, config.worker, endpoints,
                     options, context.timeline),
      config, context.device.clock(), context.timeline);
}

void check_transport(std::string_view scheme, const std::string& transport, std::int64_t port,
                     std::int64_t servers) {
  if (transport != "ipc" && transport != "tcp")
    throw Error("scheme.{}.transport = '{}': there are ipc and tcp", scheme, transport);
  if (port != 0 && transport != "tcp")
    throw Error("scheme.{}.port = {}: only transport tcp has ports", scheme, port);
  if (port < 0 || port + servers - 1 > 65535)
    throw Error(
        "scheme.{}.port = {}: {} servers want ports from 1 to 65535, or 0 for any that "
        "are free",
        scheme, port, servers);
}

void check_placement(std::string_view scheme, const std::string& placement) {
  if (placement != "dedicated" && placement != "beside")
    throw Error("scheme.{}.placement = '{}': there are dedicated and beside", scheme, placement);
}

}  // namespace ringside::ps
