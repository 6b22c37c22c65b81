#include "ps/schemes/ps_parts.h"

#include <algorithm>
#include <cmath>

#include "ps/schemes/connect.h"

namespace ringside::ps {
namespace {

std::int64_t partition_bytes(const PsOptions& options) {
  return std::llround(options.partition_mb * 1e6);
}

}  // namespace

std::vector<Chunk> chunks_of(const Model& model, int world, const PsOptions& options) {
  return partition(model, shares_of_servers(options.placement, options.servers, world),
                   partition_bytes(options), options.partition_by);
}

TransportOptions transport_options(const RankContext& context, const PsOptions& options) {
  return {.transport = options.transport,
          .port = options.port,
          .port_option = "scheme.ps.port",
          .address = options.reach.address,
          .advertise = options.reach.advertise,
          .keys = options.reach.keys,
          .io_threads = options.io_threads,
          .max_frame_bytes = std::max(max_chunk_bytes, partition_bytes(options)),
          .timeout_s = context.plan.train.timeout_s};
}

ServerConfig server_config(const RankContext& context, std::uint64_t token,
                           const PsOptions& options) {
  ServerConfig config = server_config(context, token);
  config.rules = rules_of(options);
  config.staleness_lr = options.staleness_lr;
  config.delay_compensation = options.delay_compensation;
  if (options.consistency != Consistency::easgd) return config;
  config.dtype = DType::f32;
  config.moving_rate = moving_rate_of(options, context.plan.world);
  config.period = options.communication_period;
  return config;
}

}  // namespace ringside::ps
