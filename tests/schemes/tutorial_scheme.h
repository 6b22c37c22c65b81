// The scheme that TUTORIAL.md builds first: one all-reduce of the whole gradient after backward.
#pragma once

#include <optional>

#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"
#include "core/scheme/scheme.h"
#include "peer/exposed.h"
#include "peer/scalar_sum.h"

namespace ringside::testing {

/// Every worker holds the whole model. After the last micro-batch the gradients of all workers are
/// summed, and every worker makes the same update.
class AllAtOnce : public SyncScheme {
 public:
  explicit AllAtOnce(const RankContext& context)
      : SyncScheme(context),
        communicator_(context.communicator(all_workers(context, "all-at-once"))) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    model_ = &model;
    replica_.emplace(model, context());
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.world}, context().device,
                                replica_->parameters(), parameter_map(model));
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, pass);
  }

  bool step(const StepInfo& info) override {
    peer::wait_exposed(context().timeline, "all-reduce",
                       communicator_->all_reduce(replica_->gradients()));
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, replica_->parameters(), replica_->gradients()};
    const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  void sum(std::span<double> values) override {
    peer::sum_over_ranks(context().device, *communicator_, values);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (communicator_->rank() != 0) return;
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u], replica_->parameters(u));
  }

  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace ringside::testing
