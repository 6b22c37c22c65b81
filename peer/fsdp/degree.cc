#include "peer/fsdp/degree.h"

#include <algorithm>

#include "core/base/error.h"

namespace ringside::peer {
namespace {

bool is_hybrid(Shard shard) {
  return shard == Shard::hybrid_shard || shard == Shard::hybrid_shard_zero2 ||
         shard == Shard::hybrid_shard_zero1;
}

}  // namespace

bool shards_parameters(Shard shard) {
  return shard == Shard::full_shard || shard == Shard::hybrid_shard || shard == Shard::on_demand;
}

Degree degree_of(Shard shard, std::int64_t shard_group, int world) {
  Degree degree;
  degree.group =
      shard_group == 0 ? world : static_cast<int>(std::min<std::int64_t>(shard_group, world));
  if (shard == Shard::no_shard) degree.group = 1;
  if (degree.group == 1) return degree;
  degree.parameters = shards_parameters(shard);
  degree.on_demand = shard == Shard::on_demand;
  degree.gradients =
      degree.parameters || shard == Shard::shard_grad_op || shard == Shard::hybrid_shard_zero2;
  return degree;
}

void check_degree(const std::string& scheme, Shard shard, std::int64_t shard_group, int world) {
  const std::string given = fmt::format("scheme.{}.shard_group = {}", scheme, shard_group);
  if (shard_group == 0) {
    if (!is_hybrid(shard)) return;
    throw Error(
        "scheme.{}.shard = '{}' shards within groups of ranks; set scheme.{}.shard_group to the "
        "number of ranks of a group",
        scheme, name_of(shard), scheme);
  }
  if (!is_hybrid(shard) && shard != Shard::shard_optimizer)
    throw Error(
        "{} means nothing with shard = '{}', which knows no groups; leave it out, or set "
        "scheme.fsdp.shard to 'hybrid_shard', 'hybrid_shard_zero2' or 'hybrid_shard_zero1'",
        given, name_of(shard));
  if (shard_group < world && world % shard_group != 0)
    throw Error("{} does not divide world {}; choose a divisor", given, world);
}

}  // namespace ringside::peer
