#include "ps/schemes/ps_parts.h"

#include <algorithm>
#include <cmath>

#include "core/plan/places.h"
#include "ps/schemes/connect.h"
#include "ps/schemes/ps_compression.h"
#include "ps/schemes/sum_group.h"

namespace ringside::ps {
namespace {

std::int64_t partition_bytes(const PsOptions& options) {
  return std::llround(options.partition_mb * 1e6);
}

/// The amount of one member's parts that each server keeps. A server colocated with a worker keeps,
/// as far as possible, parts that this worker pushes itself, which then do not leave the process.
/// All servers keep equally much, and each member is colocated with `most` of them or one less. The
/// parts of a member with `most` lie on its own servers alone. Those of another member fill its own
/// servers; the remainder goes to the servers of the members with `most`, one part in (group *
/// most) of a server's amount for each.
std::vector<std::int64_t> shares_of_member(std::vector<std::int64_t> shares,
                                           const std::vector<int>& colocated, int group,
                                           int member) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(group));
  const auto servers_of = [&](int m) -> std::int64_t& {
    return counts[static_cast<std::size_t>(m)];
  };
  for (const int worker : colocated) ++servers_of(worker % group);
  const std::int64_t most = std::ranges::max(counts);
  const bool fewer = servers_of(member) < most;
  for (std::size_t s = 0; s < colocated.size(); ++s) {
    const int own = colocated[s] % group;
    if (own == member)
      shares[s] *= fewer ? group * most : group;
    else
      shares[s] *= fewer && servers_of(own) == most ? 1 : 0;
  }
  return shares;
}

/// The chunks that one member of every group pushes.
std::vector<Chunk> chunks_of_member(const Model& model, const std::vector<std::int64_t>& shares,
                                    std::int64_t max_bytes, int group, int member) {
  std::vector<std::int64_t> counts, moves;  // from the parts, one after the other, into the model
  std::int64_t begin = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const UnitPart part = part_of(model.units[u]->layout().count(), group, member);
    counts.push_back(part.count);
    moves.push_back(model.first_parameter(u) + part.begin - begin);
    begin += part.count;
  }
  std::vector<Chunk> chunks = partition(counts, shares, max_bytes);
  for (Chunk& chunk : chunks) {
    chunk.begin += moves[chunk.unit];
    chunk.group = group;
    chunk.member = member;
  }
  return chunks;
}

/// The same for every member: workers push in groups.
std::vector<Chunk> chunks_of_groups(const Model& model, int world, const PsOptions& options) {
  const int group = sum_group_of(options, world);
  const std::vector<int> colocated =
      workers_with_servers(static_cast<int>(count_servers(options, world).colocated), world, group);
  const auto shares = shares_of_servers(options.placement, options.servers, world, group);
  std::vector<Chunk> chunks;
  for (int member = 0; member < group; ++member) {
    const std::vector<Chunk> more =
        chunks_of_member(model, shares_of_member(shares, colocated, group, member),
                         partition_bytes(options), group, member);
    chunks.insert(chunks.end(), more.begin(), more.end());
  }
  std::ranges::sort(chunks, {}, &Chunk::begin);
  return chunks;
}

}  // namespace

std::vector<Chunk> chunks_of(const Model& model, int world, const PsOptions& options) {
  if (sum_group_of(options, world) > 1) return chunks_of_groups(model, world, options);
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
  config.codes = compression_of(options, context.plan);
  if (options.consistency != Consistency::easgd) return config;
  config.dtype = DType::f32;
  config.moving_rate = moving_rate_of(options, context.plan.world);
  config.period = options.communication_period;
  return config;
}

}  // namespace ringside::ps
