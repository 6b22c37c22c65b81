// The scheme that docs/extending.md builds first: one all-reduce of the whole gradient after
// backward.
#pragma once

#include <optional>

#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"
#include "core/scheme/scalar_sum.h"
#include "core/scheme/scheme.h"
#include "peer/schemes/exposed.h"

namespace ringside::testing {

/// Every worker holds the whole model. After the last micro-batch, or after every one if
/// train.reduce says so, the gradients of all workers are summed. Every worker makes the same
/// update.
class AllAtOnce : public SyncScheme {
 public:
  explicit AllAtOnce(const RankContext& context)
      : SyncScheme(context),
        communicator_(context.communicator(all_workers(context, "all-at-once"))) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    model_ = &model;
    replica_.emplace(model, context());
    every_ = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
    total_ = every_ ? context().device.tensor(replica_->gradients().shape(), MemoryKind::gradient,
                                              replica_->gradients().dtype())
                    : replica_->gradients();
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.world}, context().device,
                                replica_->parameters(), parameter_map(model));
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, every_ ? Pass{} : pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, every_ ? Pass{} : pass);
    if (every_ && unit == 0) add_micro_batch(pass.micro_batch);
  }

  bool step(const StepInfo& info) override {
    if (!every_) all_reduce();
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, replica_->parameters(), total_};
    const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u], replica_->parameters(u));
  }

  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  void all_reduce() {
    peer::wait_exposed(context().timeline, "all-reduce",
                       communicator_->all_reduce(replica_->gradients()));
  }
  void add_micro_batch(std::int64_t micro_batch) {
    all_reduce();
    const Kernels& kernels = context().device.kernels();
    if (micro_batch == 0)
      kernels.copy({.in = replica_->gradients(), .out = total_});
    else
      kernels.add({.in = replica_->gradients(), .out = total_});
  }

  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  bool every_ = false;  // the gradients of each of several micro-batches are summed over workers
  Tensor total_;        // the gradient that the optimizer gets
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace ringside::testing
