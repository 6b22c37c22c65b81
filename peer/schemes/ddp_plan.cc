// What the planner asks of ddp: its options, its order of sums and its closed form of bytes.
#include "core/base/error.h"
#include "core/comm/sums.h"
#include "core/scheme/check_compression.h"
#include "core/scheme/plain_scheme.h"
#include "core/scheme/single.h"
#include "peer/schemes/compressed.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/reducer.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {

Fields fields_of(DdpOptions& options) {
  return with_compression(
      options.compression,
      {{"bucket_mb", &options.bucket_mb,
        "gradients are all-reduced in buckets of about this size (MB)", Range::positive},
       {"algorithm", &options.algorithm, "of the all-reduce: see `ringside list algorithms`"},
       {"overlap", &options.overlap,
        "reduce buckets while backward goes on; false: all after it, to see what overlap saves"}});
}

namespace {

/// Every compressor, with options that compress small models too; error memories forgotten, added
/// and left out; buckets of one unit.
std::vector<TriedOptions> tried_compressions() {
  const auto with = [](const CompressionOptions& compression) {
    return DdpOptions{.bucket_mb = 1e-3, .compression = compression};
  };
  return {
      {"fp16", with({.compressor = "fp16"})},
      {"bf16_residual", with({.compressor = "bf16", .memory = ErrorMemory::residual})},
      {"int8", with({.compressor = "int8", .block = 100})},
      {"int4", with({.compressor = "int4", .block = 99})},
      {"onebit", with({.compressor = "onebit"})},
      {"signsgd", with({.compressor = "signsgd"})},
      {"topk", with({.compressor = "topk", .ratio = 0.25})},
      {"topk_forgetful", with({.compressor = "topk", .memory = ErrorMemory::none, .ratio = 0.25})},
      {"dgc", with({.compressor = "dgc", .ratio = 0.1, .start_step = 3})},
      {"randomk", with({.compressor = "randomk", .ratio = 0.25})},
      {"powersgd", with({.compressor = "powersgd", .matrix_approximation_rank = 2})},
      {"powersgd_late", with({.compressor = "powersgd",
                              .memory = ErrorMemory::none,
                              .matrix_approximation_rank = 2,
                              .warm_start = false,
                              .start_step = 2})}};
}

}  // namespace

void check(const DdpOptions& options, const RunPlan& plan) {
  check_algorithm(plan, options.algorithm, "scheme.ddp.algorithm", some_workers(plan.world));
  check_compression(options.compression, plan);
  if (compresses(options.compression) && options.algorithm != Algorithm::native)
    throw Error(
        "scheme.ddp.algorithm = '{}' is for all-reduces of gradients; leave it out, or "
        "scheme.ddp.compressor",
        name_of(options.algorithm));
}

SumOrder ddp_order(const DdpOptions& options, const RunPlan& plan) {
  if (compresses(options.compression))
    return SumOrder::of_single;  // the promise is another algorithm
  return order_of_sums(plan, options.algorithm);
}

std::unique_ptr<SyncScheme> define_ddp(const RankContext& context, const DdpOptions& options) {
  const RunPlan& plan = context.plan;
  if (compresses(options.compression))
    return define_compressed(context, options.compression,
                             [&plan, bytes = options.bucket_mb * 1e6](const Model& model) {
                               return make_buckets(model, reduce_dtype(plan.train), bytes);
                             });
  return define_in_order(context, [&plan, options](const Model& model) {
    std::vector<Sum> out;
    for (const Bucket& bucket :
         make_buckets(model, reduce_dtype(plan.train), options.bucket_mb * 1e6))
      for (Sum sum : sums_of(plan, options.algorithm, Collective::Kind::all_reduce, bucket.count,
                             some_workers(plan.defines))) {
        sum.begin += bucket.begin;
        out.push_back(std::move(sum));
      }
    return out;
  });
}

double ddp_minimum_bytes(const StepShape& shape, const DdpOptions& options) {
  if (compresses(options.compression))
    return compressed_bytes(options.compression, shape.tensors, shape.world);
  const double n = shape.world;
  return 2 * (n - 1) / n * static_cast<double>(shape.gradient_bytes * shape.reductions);
}

SchemeInfo ddp_info() {
  using Own = DdpOptions;
  auto r = plain_scheme("ddp", "peers all-reduce gradient buckets during backward", Own{});
  r.offloads = Offload::optimizer;
  r.amends = true;
  r.converts_gradients = true;
  r.tried = {{"small_buckets", Own{.bucket_mb = 1e-3}},
             {"after_backward", Own{.bucket_mb = 1e-3, .overlap = false}}};
  for (const TriedOptions& one : tried_compressions()) r.tried.push_back(one);
  r.identities = lossless_identities("ddp");
  r.check = with_own<Own>(check);
  r.make = with_own<Own>(make_ddp);
  r.order = with_own<Own>(ddp_order);
  r.define = with_own<Own>(define_ddp);
  r.promise = [](const Options& options) {
    return compresses(options.as<Own>().compression) ? Promise::own_algorithm : Promise::same_run;
  };
  r.resumes = [](const Options&) { return true; };
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return ddp_minimum_bytes(shape, options.as<Own>());
  };
  r.divides = [](const Options&, int) { return StateDivision{}; };
  return r;
}

}  // namespace ringside::peer
