// What the planner asks of fsdp: its options and its closed form of bytes.
#include "core/base/error.h"
#include "core/compress/compressor_info.h"
#include "core/plan/device_traits.h"
#include "core/scheme/check_compression.h"
#include "core/scheme/plain_scheme.h"
#include "peer/fsdp/coded_carrier.h"
#include "peer/fsdp/fsdp.h"
#include "peer/schemes/compressed.h"
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

/// What compressed gradients do not go with.
void check_gradient_codes(const FsdpOptions& options, const CompressionOptions& codes,
                          const RunPlan& plan) {
  check_compression(codes, plan, true);
  const std::string given = fmt::format("scheme.{}.{}", plan.scheme,
                                        compresses(options.compression)
                                            ? fmt::format("compressor = '{}'", codes.compressor)
                                            : "zero_quantized_gradients = true");
  const Degree degree = degree_of(options.shard, options.shard_group, plan.world);
  if (options.shard == Shard::no_shard)
    throw Error("{} compresses reduce-scatters, and shard = 'no_shard' has none; use scheme ddp",
                given);
  if (degree.on_demand)
    throw Error(
        "{} does not go with shard = 'on_demand', which brings gradients without collectives; use "
        "'full_shard'",
        given);
  if (degree.group < plan.world)
    throw Error(
        "{} does not go with shard = '{}', which would sum uncompressed gradients across groups; "
        "use 'full_shard', with zero_quantized_gradients and zero_hpz_partition_size for groups",
        given, name_of(options.shard));
}

/// What the options of ZeRO++ do not go with.
void check_zero_plus_plus(const FsdpOptions& options, const RunPlan& plan) {
  const std::int64_t hosts = options.zero_hpz_partition_size;
  const std::string key = "scheme." + plan.scheme;
  std::string given;
  if (options.zero_quantized_weights) given = key + ".zero_quantized_weights = true";
  if (options.zero_quantized_gradients) given = key + ".zero_quantized_gradients = true";
  if (hosts > 1) given = fmt::format("{}.zero_hpz_partition_size = {}", key, hosts);
  if (given.empty()) return;
  if (options.shard != Shard::full_shard)
    throw Error("{} is for shard = 'full_shard' (ZeRO-3), not '{}'; leave one of the two out",
                given, name_of(options.shard));
  if (hosts > 1 && hosts < plan.world && plan.world % hosts != 0)
    throw Error("{} does not divide world {}; choose a divisor", given, plan.world);
  if (hosts > 1 && !options.reshard_after_forward)
    throw Error(
        "{} is for the second gathering of a unit, and with reshard_after_forward = false there is "
        "none; leave one of the two out",
        given);
  const std::string& codes = options.compression.compressor;
  if (options.zero_quantized_gradients && compresses(options.compression) && codes != "int8" &&
      codes != "int4")
    throw Error("{}.zero_quantized_gradients = true quantises to 'int4' or 'int8', not to '{}'",
                key, codes);
}

void check_codes(const FsdpOptions& options, const RunPlan& plan) {
  const Codes codes = codes_of(options, plan.world);
  check_zero_plus_plus(options, plan);
  if (compresses(codes.gradients)) check_gradient_codes(options, codes.gradients, plan);
  if (codes.any() && options.algorithm != Algorithm::native)
    throw Error(
        "scheme.{}.algorithm = '{}' does not go with compressors or ZeRO++, whose collectives are "
        "native; leave it out",
        plan.scheme, name_of(options.algorithm));
}

/// What the degree shards in a group of several ranks.
ZeroStage stage_of(Shard shard) {
  const Degree degree = degree_of(shard, 0, 2);
  if (degree.parameters) return ZeroStage::parameters;
  if (degree.gradients) return ZeroStage::gradients;
  return degree.group > 1 ? ZeroStage::optimizer : ZeroStage::none;
}

}  // namespace

Codes codes_of(const FsdpOptions& options, int ranks) {
  Codes out{.gradients = options.compression,
            .by_hosts = options.zero_quantized_gradients,
            .weights = options.zero_quantized_weights,
            .block = options.compression.block,
            .host_ranks =
                static_cast<int>(std::min<std::int64_t>(options.zero_hpz_partition_size, ranks))};
  if (options.zero_quantized_gradients && !compresses(out.gradients))
    out.gradients.compressor = "int4";
  return out;
}

Fields fields_of(FsdpOptions& options) {
  return with_compression(
      options.compression,
      {{"shard", &options.shard,
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
        "gradients are reduced in buckets of about this size (MB), whatever is gathered at once; "
        "0: "
        "unit by unit",
        Range::not_negative},
       {"read_in_place", &options.read_in_place,
        "full_shard, on_demand, hybrid_shard, on CPUs of one host, with algorithm native and "
        "without train.offload: compute with other ranks' shards where they are, instead of "
        "gathering copies; prefetch and reshard_after_forward then mean nothing"},
       {"algorithm", &options.algorithm, "of the collectives: see `ringside list algorithms`"},
       {"zero_quantized_weights", &options.zero_quantized_weights,
        "full_shard: parameters are gathered in 8 bits, with a scale for each `block` (qwZ of "
        "ZeRO++)"},
       {"zero_hpz_partition_size", &options.zero_hpz_partition_size,
        "full_shard: consecutive ranks of a host, which keep a copy of each gathered unit between "
        "them, so that backward gathers within the host (hpZ of ZeRO++); 1: none",
        Range::positive},
       {"zero_quantized_gradients", &options.zero_quantized_gradients,
        "full_shard: gradients are reduced in 4 bits, within hosts of zero_hpz_partition_size "
        "ranks and "
        "then across them (qgZ of ZeRO++); with compressor = 'int8' in 8 bits"}});
}

void check(const FsdpOptions& options, const RunPlan& plan) {
  check_degree(plan.scheme, options.shard, options.shard_group, plan.world);
  if (options.shard == Shard::on_demand) check_on_demand(options, plan);
  check_codes(options, plan);
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

namespace {

/// The fewest bytes that a rank sends so that units are gathered.
double gathered_bytes(const StepShape& shape, const FsdpOptions& options, const Degree& degree,
                      const Codes& codes) {
  const auto parameters = static_cast<double>(shape.parameter_bytes);
  double gathered = parameters;
  if (degree.parameters && options.reshard_after_forward) gathered = 2 * parameters;
  // A lender that moves together with its reader is not gathered once more.
  if (degree.parameters && options.reshard_after_forward && options.min_unit_parameters == 0)
    gathered += static_cast<double>(shape.lent_bytes);
  if (degree.parameters) gathered *= static_cast<double>(shape.micro_batches);
  const auto others = [](double ranks) { return (ranks - 1) / ranks; };
  const double first = codes.host_ranks > 1 ? parameters : gathered;  // from all ranks
  const double coded = codes.weights ? static_cast<double>(shape.parameters) / parameters *
                                           (1 + 4 / static_cast<double>(codes.block))
                                     : 1;
  return others(degree.group) * coded * first + others(codes.host_ranks) * (gathered - first);
}

/// The fewest bytes that a rank sends for one reduction of compressed gradients.
double coded_bytes(const StepShape& shape, const Codes& codes) {
  const CompressorInfo& row = find_compressor(codes.gradients.compressor);
  if (!row.in_parts) return compressed_bytes(codes.gradients, shape.tensors, shape.world);
  const double ranks = shape.world;
  double all = 0;
  for (const Shape& tensor : shape.tensors) all += row.bytes(codes.gradients, tensor);
  const double host = codes.by_hosts && codes.host_ranks > 1 ? codes.host_ranks : ranks;
  return all * ((host - 1) / host + (ranks / host - 1) / ranks);
}

}  // namespace

double fsdp_minimum_bytes(const StepShape& shape, const FsdpOptions& options) {
  const Degree degree = degree_of(options.shard, options.shard_group, shape.world);
  const Codes codes = codes_of(options, shape.world);
  const double group = degree.group, groups = shape.world / group;
  const double gathered = gathered_bytes(shape, options, degree, codes);
  if (compresses(codes.gradients))
    return gathered + static_cast<double>(shape.reductions) * coded_bytes(shape, codes);
  const double reduced = static_cast<double>(shape.gradient_bytes * shape.reductions);
  return gathered + (group - 1) / group * reduced + 2 * (groups - 1) / groups * reduced / group;
}

namespace {

/// powersgd, which every rank sums whole, in small buckets of several units.
FsdpOptions with_powersgd(Shard shard = Shard::full_shard) {
  return {.shard = shard,
          .bucket_mb = 0.01,
          .compression = {.compressor = "powersgd", .matrix_approximation_rank = 2}};
}

/// Compressors that are gathered, that add up, and whose messages change with steps; in small
/// buckets, of several units; and ZeRO++. Where it divides no world, a host has all ranks.
std::vector<TriedOptions> tried_codes() {
  const auto with = [](const CompressionOptions& compression) {
    return FsdpOptions{.bucket_mb = 0.01, .compression = compression};
  };
  return {{"topk", with({.compressor = "topk", .ratio = 0.25})},
          {"bf16_residual", with({.compressor = "bf16", .memory = ErrorMemory::residual})},
          {"onebit", FsdpOptions{.compression = {.compressor = "onebit"}}},
          {"signsgd", with({.compressor = "signsgd"})},
          {"dgc", with({.compressor = "dgc", .ratio = 0.1, .start_step = 3})},
          {"randomk", with({.compressor = "randomk", .ratio = 0.25})},
          {"powersgd", with_powersgd()},
          {"powersgd_late", FsdpOptions{.compression = {.compressor = "powersgd",
                                                        .memory = ErrorMemory::none,
                                                        .matrix_approximation_rank = 2,
                                                        .warm_start = false,
                                                        .start_step = 2}}},
          {"hpz", FsdpOptions{.zero_hpz_partition_size = 4}},
          {"qwz", FsdpOptions{.zero_quantized_weights = true}},
          {"zero_plus_plus", FsdpOptions{.min_unit_parameters = 1000,
                                         .compression = {.block = 100},
                                         .zero_quantized_weights = true,
                                         .zero_hpz_partition_size = 4,
                                         .zero_quantized_gradients = true}}};
}

/// What fsdp, or the name of one of its degrees, must equal: `single` where nothing is lost, and
/// ddp where whole buckets are summed. At world 1 fsdp has no codes, but ddp has.
std::vector<Identity> identities_of_codes(const std::string& scheme) {
  std::vector<Identity> out = lossless_identities(scheme);
  out.push_back(
      {{fmt::format("scheme.{}.compressor=powersgd", scheme), "scheme.ddp.compressor=powersgd"},
       "ddp",
       true,
       {},
       3});
  return out;
}

}  // namespace

SchemeInfo fsdp_info() {
  using Own = FsdpOptions;
  auto r = plain_scheme("fsdp", "peers shard parameters, gradients, optimizer state", Own{});
  r.offloads = Offload::parameters;
  r.amends = true;
  r.reduces_each_micro_batch = true;
  r.converts_gradients = true;
  r.check = with_own<Own>(check);
  r.make = with_own<Own>(make_fsdp);
  r.order = with_own<Own>(fsdp_order);
  r.define = with_own<Own>(define_fsdp);
  r.promise = [](const Options& options) {
    const Codes codes = codes_of(options.as<Own>(), 2);
    return compresses(codes.gradients) || codes.weights ? Promise::own_algorithm
                                                        : Promise::same_run;
  };
  r.resumes = [](const Options&) { return true; };
  r.tried = tried_codes();
  r.identities = identities_of_codes("fsdp");
  r.identities.push_back(
      {{"scheme.fsdp.zero_quantized_weights=true", "scheme.fsdp.zero_quantized_gradients=true",
        "scheme.fsdp.block=1", "optimizer.kind=sgd"},
       "single"});
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
  r.tried = {{"powersgd", with_powersgd(shard)}};
  r.identities = identities_of_codes(std::string(name));
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
