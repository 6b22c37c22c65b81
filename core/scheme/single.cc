#include "core/scheme/single.h"

#include <optional>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"

namespace ringside {
namespace {

/// Micro-batch m belongs to replica m / k, where each replica has k micro-batches. The member
/// `replica_` adds up the gradients of one replica after the other; each replica's sum is then
/// added to `total_`.
class Single : public SyncScheme {
 public:
  Single(const RankContext& context, const SingleOptions& options)
      : SyncScheme(context), replicas_(options.replicas) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    Device& device = context().device;
    if (replicas_ < 1 || plan.train.accumulation % replicas_ != 0)
      throw Error("scheme single: {} micro-batches cannot be divided evenly among {} replicas",
                  plan.train.accumulation, replicas_);
    model_ = &model;
    replica_.emplace(model, context());
    total_ = replicas_ == 1 ? replica_->gradients()
                            : device.tensor(replica_->gradients().shape(), MemoryKind::gradient,
                                            replica_->gradients().dtype());
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, replicas_}, device,
                                replica_->parameters(), parameter_map(model));
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, within_replica(pass));
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    const Pass within = within_replica(pass);
    replica_->after_backward(unit, within);
    if (replicas_ == 1 || !within.last()) return;
    const Tensor part = replica_->gradients(unit);
    const Tensor sum = total_.range(model_->first_parameter(unit), part.count());
    const auto span =
        context().timeline.scope(Activity::compute, "add up " + model_->units[unit]->name());
    const Kernels& kernels = context().device.kernels();
    if (pass.micro_batch < within.micro_batches)
      kernels.copy({.in = part, .out = sum});
    else
      kernels.add({.in = part, .out = sum});
  }

  bool step(const StepInfo& info) override {
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, replica_->parameters(), total_};
    const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  void sum(std::span<double>) override {}

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u], replica_->parameters(u));
  }

 private:
  Pass within_replica(Pass pass) const {
    pass.micro_batches /= replicas_;
    pass.micro_batch %= pass.micro_batches;
    return pass;
  }

  std::int64_t replicas_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  Tensor total_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

Fields fields_of(SingleOptions& options) {
  return {{"replicas", &options.replicas,
           "add up gradients as this many ranks would: first the micro-batches of each rank, then "
           "the sums of the ranks"}};
}

std::unique_ptr<SyncScheme> make_single(const RankContext& context, const SingleOptions& options) {
  return std::make_unique<Single>(context, options);
}

}  // namespace ringside
