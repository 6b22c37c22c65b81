#include "core/scheme/local_replicas.h"

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/pipeline_group.h"
#include "core/scheme/plain_scheme.h"

namespace ringside {

void LocalReplicas::attach(Model& model) {
  const RunPlan& plan = context().plan;
  if (plan.train.accumulation % replicas_ != 0)
    throw Error("scheme {}: {} micro-batches cannot be divided evenly among {} replicas",
                plan.scheme, plan.train.accumulation, replicas_);
  model_ = &model;
  for (int r = 0; r < replicas_; ++r) {
    Own own{Replica(model, context()), nullptr};
    own.optimizer =
        make_optimizer(plan.optimizer, {plan.train.steps, std::int64_t{plan.world} * replicas_},
                       context().device, own.replica.parameters(), parameter_map(model));
    own_.push_back(std::move(own));
  }
}

Pass LocalReplicas::within_replica(Pass pass) const {
  pass.micro_batches /= replicas_;
  pass.micro_batch %= pass.micro_batches;
  return pass;
}

LocalReplicas::Own& LocalReplicas::own(const Pass& pass) {
  return own_[static_cast<std::size_t>(pass.micro_batch / (pass.micro_batches / replicas_))];
}

void LocalReplicas::before_forward(std::size_t unit, const Pass& pass) {
  model_->units[unit]->bind(own(pass).replica.parameters(unit), {});
}

void LocalReplicas::before_backward(std::size_t unit, const Pass& pass) {
  own(pass).replica.before_backward(unit, within_replica(pass));
}

void LocalReplicas::after_backward(std::size_t unit, const Pass& pass) {
  own(pass).replica.after_backward(unit, within_replica(pass));
}

void LocalReplicas::update(int replica, const StepInfo& info) {
  const Own& own = at(replica);
  const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
  const ParameterRange all{0, own.replica.parameters(), own.replica.gradients()};
  settle_rounds(*own.optimizer, all, info, [this](std::span<double> sums) {
    if (context().pipeline) context().pipeline->sum(sums);  // a replica has all stages
  });
  own.optimizer->update(all, info);
}

bool LocalReplicas::step(const StepInfo& info) {
  for (int r = 0; r < replicas_; ++r) update(r, info);
  synchronise(info);
  return true;
}

std::int64_t LocalReplicas::gradient_batch() const {
  return context().plan.train.global_batch / (context().plan.world * replicas_);
}

Tensor LocalReplicas::values(int replica) const {
  for (const OptimizerState& state : at(replica).optimizer->state())
    if (state.name == master_values) return state.values;
  return at(replica).replica.parameters();
}

void LocalReplicas::begin_moments_anew(int replica) {
  for (const OptimizerState& state : at(replica).optimizer->state())
    if (state.name != master_values)
      context().device.kernels().fill({.out = state.values, .value = 0});
}

void LocalReplicas::round_parameters(int replica) const {
  round_parameters(replica, 0, at(replica).replica.parameters().count());
}

void LocalReplicas::round_parameters(int replica, std::int64_t begin, std::int64_t count) const {
  const Tensor& parameters = at(replica).replica.parameters();
  if (parameters.dtype() == DType::f32) return;  // values() are the parameters
  context().device.kernels().cast(
      {.in = values(replica).range(begin, count), .out = parameters.range(begin, count)});
}

void LocalReplicas::visit_parameters(const ParameterVisitor& visit) {
  for (int r = 0; r < replicas_; ++r)
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(worker_of(r), *model_->units[u], at(r).replica.parameters(u));
}

void LocalReplicas::visit_state(const StateVisitor& visit) {
  for (int r = 0; r < replicas_; ++r)
    visit_optimizer(context(), *at(r).optimizer, {{0, 0, at(r).replica.parameters()}},
                    {.replica = worker_of(r)}, visit);
}

void LocalReplicas::restored(std::int64_t skipped) {
  for (const Own& own : own_) {
    const ParameterRange all{0, own.replica.parameters(), {}};
    own.optimizer->restored({&all, 1}, skipped);
  }
}

void check_side_by_side(const RunPlan& plan) {
  if (plan.train.precision == Precision::fp16)
    throw Error(
        "scheme {} does not train in fp16, because every replica would need a loss scale of its "
        "own; set train.precision = \"bf16\"",
        plan.scheme);
  refuse_skipped_steps(plan, "scheme " + plan.scheme,
                       "they train replicas of their own, and none knows another's gradients");
  if (plan.model.batch_norm_group > 1)
    throw Error(
        "model.batch_norm_group = {}: replicas of scheme {} do not share batch norms; leave it out",
        plan.model.batch_norm_group, plan.scheme);
  if (plan.train.shares != Shares::equal)
    throw Error(
        "train.shares: workers of scheme {} train replicas of their own, which all have equally "
        "many samples; leave it at 'equal'",
        plan.scheme);
}

}  // namespace ringside
