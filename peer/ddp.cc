#include "peer/ddp.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/replica.h"
#include "peer/exposed.h"
#include "peer/scalar_sum.h"

namespace ringside::peer {
namespace {

/// Units finish backward from the last to the first, so buckets do: each is a range of gradients
/// of consecutive units and starts on its way when the first of them is done.
class Ddp : public SyncScheme {
 public:
  Ddp(const RankContext& context, const DdpOptions& options,
      std::unique_ptr<Communicator> communicator)
      : SyncScheme(context),
        bucket_bytes_(options.bucket_mb * 1e6),
        communicator_(std::move(communicator)) {
    check(options);
  }

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    model_ = &model;
    replica_.emplace(model, context());
    optimizer_ =
        make_optimizer(plan.optimizer, plan.train.steps, context().device, replica_->parameters());
    make_buckets();
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, pass);
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, pass);
    if (!pass.last()) return;
    for (Bucket& bucket : buckets_)
      if (bucket.first_unit == unit)
        bucket.work =
            communicator_->all_reduce(replica_->gradients().range(bucket.begin, bucket.count));
  }

  bool step(const StepInfo& info) override {
    for (Bucket& bucket : buckets_) {
      wait_exposed(context().timeline, "all-reduce " + bucket.name, std::move(bucket.work));
      const auto span = context().timeline.scope(Activity::optimizer, "optimizer " + bucket.name);
      optimizer_->update(bucket.begin, replica_->parameters().range(bucket.begin, bucket.count),
                         replica_->gradients().range(bucket.begin, bucket.count), info.step);
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
    WorkPtr work;
  };

  void make_buckets() {
    std::int64_t end = model_->parameter_count();
    for (std::size_t u = model_->units.size(); u-- > 0;) {
      const std::int64_t begin = model_->first_parameter(u);
      const auto bytes =
          static_cast<double>(replica_->gradients().range(begin, end - begin).bytes());
      if (bytes < bucket_bytes_ && u > 0) continue;
      buckets_.push_back({"bucket " + std::to_string(buckets_.size()), u, begin, end - begin, {}});
      end = begin;
    }
  }

  double bucket_bytes_;
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<Bucket> buckets_;  // in the order in which they are ready
};

}  // namespace

void check(const DdpOptions& options) {
  if (!(options.bucket_mb > 0))
    throw Error("scheme.ddp.bucket_mb = {} must be above 0", options.bucket_mb);
}

std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options,
                                     std::unique_ptr<Communicator> communicator) {
  return std::make_unique<Ddp>(context, options, std::move(communicator));
}

double ddp_minimum_bytes(const StepShape& shape) {
  const double n = shape.world;
  return 2 * (n - 1) / n * static_cast<double>(shape.parameter_bytes);
}

}  // namespace ringside::peer
