// The definition of fsdp: one rank that adds up, and computes, as the workers do.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/compress/compressor_info.h"
#include "core/scheme/single.h"
#include "peer/fsdp/coded_carrier.h"
#include "peer/fsdp/coded_reduction.h"
#include "peer/fsdp/fsdp.h"
#include "peer/fsdp/fsdp_units.h"
#include "peer/fsdp/gradient_buckets.h"
#include "peer/fsdp/quantised_weights.h"
#include "peer/fsdp/whole_reduction.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {
namespace {

/// The sum that contains element `element`.
const Sum& sum_at(const std::vector<Sum>& sums, std::int64_t element) {
  return *std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) {
    return element >= sum.begin && element < sum.begin + sum.count;
  });
}

/// How `world` workers add up the gradients of a model whose FSDP units are sharded within groups
/// of `group` workers: for each bucket by a reduce-scatter within each group, then by an all-reduce
/// of its shards across groups (GradientShards).
std::vector<Sum> sums_of_shards(const RunPlan& plan, Algorithm algorithm,
                                const FsdpUnits& fsdp_units, const GradientBuckets& buckets,
                                int world, int group) {
  const auto shard_of = [&](std::size_t b) { return (fsdp_units[b].count + group - 1) / group; };
  std::vector<Sum> out;
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    std::int64_t part = 0;  // elements of a rank's shards of all FSDP units
    for (std::size_t b = buckets[k].first; b <= buckets[k].last; ++b) part += shard_of(b);
    std::vector<std::vector<Sum>> within;  // of every group
    for (int first = 0; group > 1 && first < world; first += group)
      within.push_back(sums_of(plan, algorithm, Collective::Kind::reduce_scatter, part * group,
                               some_workers(group, first)));
    for (int s = 0; s < group; ++s) {
      // Which worker of each group has the group's sums of the part.
      std::vector<Addition> additions;
      std::vector<int> holders = some_workers(world / group, s, group);
      for (std::size_t g = 0; g < within.size(); ++g) {
        const Sum& sum = sum_at(within[g], s * part);
        additions.insert(additions.end(), sum.additions.begin(), sum.additions.end());
        holders[g] = sum.additions.back().into;
      }
      std::vector<Sum> across = {{0, part, {}}};
      if (world > group) {
        across = sums_of(plan, algorithm, Collective::Kind::all_reduce, part,
                         some_workers(world / group, s, group));
        for (Sum& sum : across)
          for (Addition& one : sum.additions)
            one = {holders[static_cast<std::size_t>(one.into / group)],
                   holders[static_cast<std::size_t>(one.from / group)]};
      }
      std::int64_t begin = 0;  // of an FSDP unit's shard in the part
      for (std::size_t b = buckets[k].first; b <= buckets[k].last; begin += shard_of(b++)) {
        const std::int64_t in_fsdp_unit = s * shard_of(b) - begin;  // less the place in the part
        for (const Sum& sum : across) {
          const std::int64_t from = in_fsdp_unit + std::max(sum.begin, begin);
          const std::int64_t to =
              std::min(in_fsdp_unit + std::min(sum.begin + sum.count, begin + shard_of(b)),
                       fsdp_units[b].count);  // without padding
          if (to <= from) continue;
          Sum& all = out.emplace_back(Sum{fsdp_units[b].begin + from, to - from, additions});
          all.additions.insert(all.additions.end(), sum.additions.begin(), sum.additions.end());
        }
      }
    }
  }
  return out;
}

/// The part of the definition that makes one gradient of those of all workers.
std::unique_ptr<SyncScheme> define_sums(const RankContext& context, const FsdpOptions& options) {
  const RunPlan& plan = context.plan;
  const int ranks = plan.defines;
  const Codes codes = codes_of(options, ranks);
  if (ranks > 1 && compresses(codes.gradients)) {
    const std::int64_t least = options.min_unit_parameters;
    if (!find_compressor(codes.gradients.compressor).in_parts)
      return define_whole_reduction(context, codes.gradients, least, options.bucket_mb * 1e6);
    const int hosts = codes.by_hosts && codes.host_ranks > 1 ? ranks / codes.host_ranks : 1;
    return define_coded_reduction(context, {codes.gradients, hosts, least});
  }
  return define_in_order(context, [&plan, options](const Model& model) {
    const int group = degree_of(options.shard, options.shard_group, plan.defines).group;
    const FsdpUnits fsdp_units(model, options.min_unit_parameters);
    const GradientBuckets buckets(fsdp_units, reduce_dtype(plan.train), options.bucket_mb * 1e6);
    return sums_of_shards(plan, options.algorithm, fsdp_units, buckets, plan.defines, group);
  });
}

}  // namespace

SumOrder fsdp_order(const FsdpOptions& options, const RunPlan& plan) {
  if (options.shard == Shard::on_demand) return SumOrder::of_single;
  // The promise of compressed gradients is another algorithm; its definition has to know in which
  // micro-batches they are compressed.
  const bool each = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
  if (compresses(codes_of(options, plan.world).gradients))
    return each && plan.world > 1 ? SumOrder::own : SumOrder::of_single;
  const int group = degree_of(options.shard, options.shard_group, plan.world).group;
  const bool two_levels = group > 1 && group < plan.world;
  return order_of_sums(plan, options.algorithm, two_levels);
}

std::unique_ptr<SyncScheme> define_fsdp(const RankContext& context, const FsdpOptions& options) {
  const int ranks = context.plan.defines;
  const Codes codes = codes_of(options, ranks);
  auto sums = define_sums(context, options);
  if (ranks == 1 || !codes.weights) return sums;
  return with_quantised_weights(context, std::move(sums), ranks, options.min_unit_parameters,
                                codes.block);
}

}  // namespace ringside::peer
