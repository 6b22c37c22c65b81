// What the planner asks of fsdp: its options, its order of sums and its closed form of bytes.
#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/scheme/single.h"
#include "peer/fsdp/fsdp.h"
#include "peer/fsdp/fsdp_units.h"
#include "peer/fsdp/gradient_shards.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {

namespace {

/// What on_demand does not go with.
void check_on_demand(const FsdpOptions& options, const RunPlan& plan) {
  const std::string key = "scheme." + plan.scheme;
  if (!device_traits(plan.device.kind).one_sided)
    throw Error(
        "{}.shard = 'on_demand': NCCL has no one-sided reads and writes, so GPUs cannot serve each "
        "other; use 'full_shard', or simulated GPUs",
        key);
  if (options.algorithm != Algorithm::native)
    throw Error(
        "{}.algorithm = '{}' means nothing with shard = 'on_demand', which has no collectives; "
        "leave it out",
        key, name_of(options.algorithm));
  if (options.bucket_mb > 0)
    throw Error(
        "{}.bucket_mb = {} means nothing with shard = 'on_demand', which brings each unit's "
        "gradient to its owners; leave it out, or set min_unit_parameters",
        key, options.bucket_mb);
  if (plan.train.offload == Offload::parameters)
    throw Error(
        "train.offload = 'parameters' does not go with {}.shard = 'on_demand', whose ranks read "
        "each other's shards on their devices; set train.offload to 'optimizer', or use "
        "'full_shard'",
        key);
  if (converts_gradients(plan.train))
    throw Error(
        "train.reduce_precision = '{}' does not go with {}.shard = 'on_demand', which brings "
        "gradients as backward writes them; leave it out, or use 'full_shard'",
        name_of(plan.train.reduce_precision), key);
}

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

/// What the degree shards in a group of several ranks.
ZeroStage stage_of(Shard shard) {
  const Degree degree = degree_of(shard, 0, 2);
  if (degree.parameters) return ZeroStage::parameters;
  if (degree.gradients) return ZeroStage::gradients;
  return degree.group > 1 ? ZeroStage::optimizer : ZeroStage::none;
}

}  // namespace

Fields fields_of(FsdpOptions& options) {
  return {
      {"shard", &options.shard,
       "what ranks divide: no_shard: nothing; shard_optimizer (ZeRO-1), shard_grad_op (ZeRO-2), "
       "full_shard (ZeRO-3); on_demand: the same without collectives, ranks wait once a step; "
       "hybrid_shard, hybrid_shard_zero2, hybrid_shard_zero1: within groups"},
      {"shard_group", &options.shard_group,
       "consecutive ranks that divide one model, for hybrid degrees and shard_optimizer; 0: all",
       Range::not_negative},
      {"reshard_after_forward", &options.reshard_after_forward,
       "full_shard, on_demand, hybrid_shard: free units after forward, and gather them again for "
       "backward"},
      {"prefetch", &options.prefetch,
       "full_shard, on_demand, hybrid_shard: number of units gathered ahead of the one that is "
       "computed",
       Range::not_negative},
      {"min_unit_parameters", &options.min_unit_parameters,
       "neighbouring units are gathered and reduced as one until they have so many parameters",
       Range::not_negative},
      {"bucket_mb", &options.bucket_mb,
       "gradients are reduced in buckets of about this size (MB), whatever is gathered at once; 0: "
       "unit by unit",
       Range::not_negative},
      {"read_in_place", &options.read_in_place,
       "full_shard, on_demand, hybrid_shard, on CPUs of one host, with algorithm native and "
       "without train.offload: compute with other ranks' shards where they are, instead of "
       "gathering copies; prefetch and reshard_after_forward then mean nothing"},
      {"algorithm", &options.algorithm, "of the collectives: see `ringside list algorithms`"}};
}

void check(const FsdpOptions& options, const RunPlan& plan) {
  check_degree(plan.scheme, options.shard, options.shard_group, plan.world);
  if (options.shard == Shard::on_demand) check_on_demand(options, plan);
  const std::string algorithm = fmt::format("scheme.{}.algorithm", plan.scheme);
  if (options.algorithm == Algorithm::library)
    throw Error(
        "{} = 'library': libraries between hosts take the place of all-reduces alone, and sharding "
        "needs other collectives; leave the option out, or use scheme ddp",
        algorithm);
  const int group = degree_of(options.shard, options.shard_group, plan.world).group;
  check_algorithm(plan, options.algorithm, algorithm, some_workers(plan.world));
  for (int first = 0; first < plan.world; first += group)
    check_algorithm(plan, options.algorithm, algorithm, some_workers(group, first));
  for (int first = 0; first < group; ++first)
    check_algorithm(plan, options.algorithm, algorithm,
                    some_workers(plan.world / group, first, group));
  if (!options.reshard_after_forward && !shards_parameters(options.shard))
    throw Error(
        "scheme.{}.reshard_after_forward = false means nothing with shard = '{}', which keeps "
        "parameters whole; leave it out, or set shard to 'full_shard', 'on_demand' or "
        "'hybrid_shard'",
        plan.scheme, name_of(options.shard));
  if (!options.read_in_place && !shards_parameters(options.shard))
    throw Error(
        "scheme.{}.read_in_place = false means nothing with shard = '{}', which keeps parameters "
        "whole; leave it out, or set shard to 'full_shard', 'on_demand' or 'hybrid_shard'",
        plan.scheme, name_of(options.shard));
  if (plan.train.offload == Offload::parameters && !shards_parameters(options.shard))
    throw Error(
        "train.offload = 'parameters' means nothing to scheme {} with shard = '{}', which keeps "
        "parameters whole; set train.offload to 'optimizer', or use 'full_shard' or "
        "'hybrid_shard'",
        plan.scheme, name_of(options.shard));
}

SumOrder fsdp_order(const FsdpOptions& options, const RunPlan& plan) {
  if (options.shard == Shard::on_demand) return SumOrder::of_single;
  const int group = degree_of(options.shard, options.shard_group, plan.world).group;
  const bool two_levels = group > 1 && group < plan.world;
  return order_of_sums(plan, options.algorithm, two_levels);
}

std::unique_ptr<SyncScheme> define_fsdp(const RankContext& context, const FsdpOptions& options) {
  const RunPlan& plan = context.plan;
  return define_in_order(context, [&plan, options](const Model& model) {
    const int group = degree_of(options.shard, options.shard_group, plan.defines).group;
    const FsdpUnits fsdp_units(model, options.min_unit_parameters);
    const GradientBuckets buckets(fsdp_units, reduce_dtype(plan.train), options.bucket_mb * 1e6);
    return sums_of_shards(plan, options.algorithm, fsdp_units, buckets, plan.defines, group);
  });
}

double fsdp_minimum_bytes(const StepShape& shape, const FsdpOptions& options) {
  const Degree degree = degree_of(options.shard, options.shard_group, shape.world);
  const double group = degree.group, groups = shape.world / group;
  const auto parameters = static_cast<double>(shape.parameter_bytes);
  double gathered = parameters;
  if (degree.parameters && options.reshard_after_forward) gathered = 2 * parameters;
  // A lender that moves together with its reader is not gathered once more.
  if (degree.parameters && options.reshard_after_forward && options.min_unit_parameters == 0)
    gathered += static_cast<double>(shape.lent_bytes);
  if (degree.parameters) gathered *= static_cast<double>(shape.micro_batches);
  const double reduced = static_cast<double>(shape.gradient_bytes * shape.reductions);
  return (group - 1) / group * (gathered + reduced) + 2 * (groups - 1) / groups * reduced / group;
}

SchemeInfo fsdp_info() {
  using Own = FsdpOptions;
  auto r = plain_scheme("fsdp", "peers shard parameters, gradients, optimizer state", Own{});
  r.offloads = Offload::parameters;
  r.reduces_each_micro_batch = true;
  r.converts_gradients = true;
  r.check = with_own<Own>(check);
  r.make = with_own<Own>(make_fsdp);
  r.order = with_own<Own>(fsdp_order);
  r.define = with_own<Own>(define_fsdp);
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return fsdp_minimum_bytes(shape, options.as<Own>());
  };
  r.divides = [](const Options& options, int world) {
    const Own& own = options.as<Own>();
    return StateDivision{stage_of(own.shard), degree_of(own.shard, own.shard_group, world).group};
  };
  return r;
}

SchemeInfo zero_info(std::string_view name, std::string_view summary, Shard shard) {
  using Own = FsdpOptions;
  auto r = fsdp_info();
  r.name = name;
  r.summary = summary;
  r.defaults = Own{.shard = shard};
  r.reduces_each_micro_batch = shard != Shard::shard_optimizer;
  r.check = [name, shard](const Options& options, const RunPlan& plan) {
    const Own& own = options.as<Own>();
    if (own.shard != shard)
      throw Error("scheme.{}.shard = '{}': {} stands for '{}'; leave it out, or use scheme fsdp",
                  name, name_of(own.shard), name, name_of(shard));
    check(own, plan);
  };
  return r;
}

}  // namespace ringside::peer
