#include "ps/schemes/local_servers.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/scheme/plain_scheme.h"
#include "ps/schemes/connect.h"

namespace ringside::ps {
namespace {

constexpr std::int64_t most_local_servers = 4096;

}  // namespace

Fields with_servers(LocalServers& servers, Fields fields) {
  Fields more = {
      {"placement", &servers.placement,
       "dedicated: servers in processes of their own; colocated: within the workers' processes"},
      {"port", &servers.port,
       "tcp: port of the first server; the other servers take the next ports; 0: any free ports",
       Range::not_negative},
      {"server_device", &servers.server_device,
       "device of dedicated servers: same as the workers', or cpu"},
      {"servers", &servers.servers, "servers that the parameters are spread over", Range::positive},
      {"transport", &servers.transport,
       "how messages travel between processes: shm (ranks on CPUs), ipc, tcp, or auto: shm where "
       "it can be, else ipc"}};
  for (Field& field : more) fields.push_back(std::move(field));
  return with_reach(servers.reach, std::move(fields));
}

void check_local_servers(const LocalServers& servers, const RunPlan& plan) {
  const std::string& scheme = plan.scheme;
  if (servers.placement == Placement::mixed)
    throw Error("scheme.{}.placement = 'mixed' is for scheme ps; choose dedicated or colocated",
                scheme);
  if (servers.servers > most_local_servers)
    throw Error("scheme.{}.servers = {} must be at most {}", scheme, servers.servers,
                most_local_servers);
  check_port(scheme, servers.transport, servers.port, servers.servers);
  check_reach(scheme, servers.transport, servers.reach);
  if (plan.train.precision == Precision::fp16)
    throw Error(
        "scheme {} does not train in fp16, because every worker would need a loss scale of its "
        "own; set train.precision = \"bf16\"",
        scheme);
  refuse_skipped_steps(plan, "scheme " + scheme,
                       "they train replicas of their own, and none knows another's gradients");
  if (plan.model.batch_norm_group > 1)
    throw Error(
        "model.batch_norm_group = {}: workers of scheme {} do not share batch norms; leave it out",
        plan.model.batch_norm_group, scheme);
  if (plan.train.reduce == Reduce::every)
    throw Error("train.reduce = 'every': workers of scheme {} push no gradients; leave it out",
                scheme);
}

void check_equal_shares(const RunPlan& plan) {
  if (plan.train.shares != Shares::equal)
    throw Error("scheme {}: workers have equal shares of a step; leave train.shares at 'equal'",
                plan.scheme);
}

ServerCounts count_servers(const LocalServers& servers, int world) {
  return count_servers(servers.placement, servers.servers, world);
}

std::vector<Chunk> chunks_of(const Model& model, const RunPlan& plan) {
  return partition(model, plan.servers);
}

TransportOptions local_transport(const RankContext& context, const LocalServers& servers) {
  return {.transport = servers.transport,
          .port = servers.port,
          .port_option = "scheme." + context.plan.scheme + ".port",
          .address = servers.reach.address,
          .advertise = servers.reach.advertise,
          .keys = servers.reach.keys,
          .max_frame_bytes = max_chunk_bytes,
          .timeout_s = context.plan.train.timeout_s};
}

OptimizerConfig outer_sgd(double lr, double momentum) {
  OptimizerConfig config;
  config.kind = "sgd";
  config.lr = lr;
  config.momentum = momentum;
  config.nesterov = momentum > 0;
  config.weight_decay = 0;
  return config;
}

ServerConfig local_server_config(const RankContext& context, std::uint64_t token,
                                 const OptimizerConfig& optimizer) {
  ServerConfig config = server_config(context, token);
  config.dtype = DType::f32;
  config.optimizer = optimizer;
  return config;
}

double exchange_bytes(const StepShape& shape, const LocalServers& servers, double pushing,
                      std::int64_t period) {
  const double all = 4 * static_cast<double>(shape.parameters), n = shape.world;
  const double kept = all / static_cast<double>(servers.servers);
  double most = std::max(all, pushing * kept);
  if (servers.placement == Placement::colocated) {
    const double with_server = all - kept + (pushing - 1) * kept;
    if (pushing < n)
      most = std::max(all - kept, (pushing - 1) * kept);
    else
      most = static_cast<double>(servers.servers) < n ? std::max(all, with_server) : with_server;
  }
  return most / static_cast<double>(period);
}

}  // namespace ringside::ps
