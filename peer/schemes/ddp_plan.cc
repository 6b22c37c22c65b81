// What the planner asks of ddp: its options, its order of sums and its closed form of bytes.
#include "core/comm/sums.h"
#include "core/scheme/single.h"
#include "peer/schemes/ddp.h"
#include "peer/schemes/reducer.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {

Fields fields_of(DdpOptions& options) {
  return {
      {"bucket_mb", &options.bucket_mb,
       "gradients are all-reduced in buckets of about this size (MB)", Range::positive},
      {"algorithm", &options.algorithm, "of the all-reduce: see `ringside list algorithms`"},
      {"overlap", &options.overlap,
       "reduce buckets while backward goes on; false: all after it, to see what overlap saves"}};
}

void check(const DdpOptions& options, const RunPlan& plan) {
  check_algorithm(plan, options.algorithm, "scheme.ddp.algorithm", some_workers(plan.world));
}

SumOrder ddp_order(const DdpOptions& options, const RunPlan& plan) {
  return order_of_sums(plan, options.algorithm);
}

std::unique_ptr<SyncScheme> define_ddp(const RankContext& context, const DdpOptions& options) {
  const RunPlan& plan = context.plan;
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

double ddp_minimum_bytes(const StepShape& shape) {
  const double n = shape.world;
  return 2 * (n - 1) / n * static_cast<double>(shape.gradient_bytes * shape.reductions);
}

SchemeInfo ddp_info() {
  using Own = DdpOptions;
  auto r = plain_scheme("ddp", "peers all-reduce gradient buckets during backward", Own{});
  r.offloads = Offload::optimizer;
  r.converts_gradients = true;
  r.tried = {{"small_buckets", Own{.bucket_mb = 1e-3}},
             {"after_backward", Own{.bucket_mb = 1e-3, .overlap = false}}};
  r.check = with_own<Own>(check);
  r.make = with_own<Own>(make_ddp);
  r.order = with_own<Own>(ddp_order);
  r.define = with_own<Own>(define_ddp);
  r.minimum_bytes = [](const Options&, const StepShape& shape) { return ddp_minimum_bytes(shape); };
  r.divides = [](const Options&, int) { return StateDivision{}; };
  return r;
}

}  // namespace ringside::peer
