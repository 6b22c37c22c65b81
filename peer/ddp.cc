#include "peer/ddp.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/parameter_map.h"
#include "core/replica.h"
#include "peer/exposed.h"
#include "peer/scalar_sum.h"

namespace ringside::peer {
namespace {

/// Units finish backward from the last to the first, so buckets do: each is a range of gradients
/// of consecutive units and starts on its way when the first of them is done. With reductions at
/// every micro-batch a bucket comes back before the next one overwrites it, and is added up.
class Ddp : public SyncScheme {
 public:
  Ddp(const RankContext& context, const DdpOptions& options)
      : SyncScheme(context),
        bucket_bytes_(options.bucket_mb * 1e6),
        communicator_(context.communicator(all_workers(context, "ddp"))) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    model_ = &model;
    replica_.emplace(model, context());
    every_ = plan.train.reduce == "every" && plan.train.accumulation > 1;
    total_ = every_ ? context().device.tensor(replica_->gradients().shape(), MemoryKind::gradient,
                                              replica_->gradients().dtype())
                    : replica_->gradients();
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.world}, context().device,
                                replica_->parameters(), parameter_map(model));
    make_buckets();
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    if (every_)
      finish(*std::find_if(buckets_.begin(), buckets_.end(),
                           [&](const Bucket& b) { return b.first_unit <= unit; }));
    replica_->before_backward(unit, every_ ? Pass{} : pass);
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, every_ ? Pass{} : pass);
    if (!every_ && !pass.last()) return;
    for (Bucket& bucket : buckets_)
      if (bucket.first_unit == unit) {
        bucket.micro_batch = pass.micro_batch;
        bucket.work =
            communicator_->all_reduce(replica_->gradients().range(bucket.begin, bucket.count));
      }
  }

  bool step(const StepInfo& info) override {
    if (optimizer_->rounds() > 0) return step_at_once(info);
    for (Bucket& bucket : buckets_) {
      finish(bucket);
      const auto span = context().timeline.scope(Activity::optimizer, "optimizer " + bucket.name);
      optimizer_->update({bucket.begin, replica_->parameters().range(bucket.begin, bucket.count),
                          total_.range(bucket.begin, bucket.count)},
                         info);
    }
    return true;
  }

  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (communicator_->rank() != 0) return;
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(*model_->units[u], replica_->parameters(u));
  }

  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  /// Elements [begin, begin + count) of the model, from `first_unit` on.
  struct Bucket {
    std::string name;
    std::size_t first_unit = 0;
    std::int64_t begin = 0, count = 0;
    WorkPtr work;                  // while it is on its way
    std::int64_t micro_batch = 0;  // whose gradients these are
  };

  /// Waits for the bucket, if it is on its way, and adds it to the total.
  void finish(Bucket& bucket) {
    if (!bucket.work) return;
    wait_exposed(context().timeline, "all-reduce " + bucket.name, std::move(bucket.work));
    if (!every_) return;
    const auto span = context().timeline.scope(Activity::compute, "add up " + bucket.name);
    const Tensor part = replica_->gradients().range(bucket.begin, bucket.count);
    const Tensor sum = total_.range(bucket.begin, bucket.count);
    if (bucket.micro_batch == 0)
      context().device.kernels().copy({.in = part, .out = sum});
    else
      context().device.kernels().add({.in = part, .out = sum});
  }

  /// All gradients are whole on every rank, so there is nothing to be summed over ranks.
  bool step_at_once(const StepInfo& info) {
    for (Bucket& bucket : buckets_) finish(bucket);
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, replica_->parameters(), total_};
    const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  void make_buckets() {
    std::int64_t end = model_->parameter_count();
    for (std::size_t u = model_->units.size(); u-- > 0;) {
      const std::int64_t begin = model_->first_parameter(u);
      const auto bytes =
          static_cast<double>(replica_->gradients().range(begin, end - begin).bytes());
      if (bytes < bucket_bytes_ && u > 0) continue;
      buckets_.push_back(
          {"bucket " + std::to_string(buckets_.size()), u, begin, end - begin, {}, 0});
      end = begin;
    }
  }

  double bucket_bytes_;
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  bool every_ = false;  // micro-batch is reduced, of several
  Tensor total_;        // what the optimizer gets
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Bucket> buckets_;  // in the order in which they are ready
};

}  // namespace

Fields fields_of(DdpOptions& options) {
  return {{"bucket_mb", &options.bucket_mb,
           "gradients are all-reduced in buckets of about this size (MB)"}};
}

void check(const DdpOptions& options) {
  if (!(options.bucket_mb > 0))
    throw Error("scheme.ddp.bucket_mb = {} must be above 0", options.bucket_mb);
}

std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options) {
  check(options);
  return std::make_unique<Ddp>(context, options);
}

double ddp_minimum_bytes(const StepShape& shape) {
  const double n = shape.world;
  return 2 * (n - 1) / n * static_cast<double>(shape.parameter_bytes * shape.reductions);
}

}  // namespace ringside::peer
