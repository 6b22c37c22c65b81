#include "core/train/model_passes.h"

#include <utility>

#include "core/plan/slices.h"
#include "core/train/skipped_step.h"

namespace ringside {

ModelPasses::ModelPasses(const RankContext& context, Model& model, SyncScheme& scheme,
                         const OwnFaults& faults)
    : context_(context),
      model_(model),
      scheme_(scheme),
      faults_(faults),
      terms_{.terms = model.terms,
             .global_batch = context.plan.train.global_batch,
             .gradient_batch = scheme.gradient_batch()},
      slowdown_(context.plan, context.self().worker, context.device),
      inputs_(model.units.size()) {}

void ModelPasses::begin_step(std::int64_t step, float gradient_scale, const Loader& training) {
  slowdown_.begin_step(step);
  terms_.gradient_scale = gradient_scale;
  count_targets(training, step);
}

std::vector<Loss> ModelPasses::train(Pass pass, const Loader& training) {
  std::vector<Loss> losses = forward(pass, pass.step, training);
  if (context_.plan.train.skip_not_finite > 0) spoil_gradient(context_.device, losses);
  Tensor gradient = std::exchange(losses[0].gradient, {});
  for (std::size_t u = model_.units.size(); u-- > 0;) {
    Unit& unit = *model_.units[u];
    scheme_.before_backward(u, pass);
    {
      const auto span = context_.timeline.scope(Activity::compute, "backward " + unit.name());
      const Slowdown::Part part(slowdown_);
      if (recomputes(u)) recompute(u, pass);
      gradient = unit.backward(gradient, saved_[u]);
    }
    scheme_.after_backward(u, pass);
  }
  return losses;
}

LossValue ModelPasses::evaluate(Pass pass, std::int64_t index, const Loader& held_out) {
  count_targets(held_out, index);
  return value_of(context_.device, forward(pass, index, held_out)[0]);
}

void ModelPasses::count_targets(const Loader& loader, std::int64_t index) {
  terms_.targets = loader.targets({index, 0, terms_.global_batch});
}

void ModelPasses::recompute(std::size_t unit, Pass pass) {
  pass.keep = pass.again = true;
  model_.units[unit]->forward(std::exchange(inputs_[unit], {}), pass, saved_[unit]);
}

/// Frees what an earlier micro-batch may have left: one without a backward, or one that failed.
void ModelPasses::forget() {
  saved_.clear();
  side_ = SideValues(model_.edges.size());
  for (std::size_t u = 0; u < model_.units.size(); ++u) saved_.emplace_back(side_);
}

std::vector<Loss> ModelPasses::forward(Pass& pass, std::int64_t index, const Loader& loader) {
  BatchSlice slice = slice_of(context_.plan, context_.self().worker, index, pass.micro_batch);
  slice.count *= pass.ranks;
  pass.first_sample = slice.first;

  const std::int64_t mean = terms_.gradient_batch;
  terms_.gradient_targets = terms_.targets == 0 || mean == terms_.global_batch
                                ? terms_.targets
                                : loader.targets({index, pass.first_sample / mean * mean, mean});

  forget();
  Batch batch = scheme_.fetch(slice, loader, pass);
  Tensor x = batch.inputs;
  for (std::size_t u = 0; u < model_.units.size(); ++u) {
    Unit& unit = *model_.units[u];
    scheme_.before_forward(u, pass);
    {
      const auto span = context_.timeline.scope(Activity::compute, "forward " + unit.name());
      const Slowdown::Part part(slowdown_);
      if (pass.training && recomputes(u)) inputs_[u] = x;
      pass.keep = pass.training && !recomputes(u);
      x = unit.forward(x, pass, saved_[u]);
      if (pass.training && u + 1 == model_.units.size()) faults_.poison(context_.device, x, pass);
      if (pass.training) outputs_.look_at(context_.device, pass, u, model_.units.size(), x);
    }
    scheme_.after_forward(u, pass);
  }
  return losses_of(x, batch, pass);
}

std::vector<Loss> ModelPasses::losses_of(const Tensor& logits, const Batch& batch,
                                         const Pass& pass) {
  std::vector<Loss> losses;
  const auto part = [&](const Tensor& all, std::int64_t rank) {
    const std::int64_t count = all.count() / pass.ranks;
    return pass.ranks == 1 ? all : all.range(rank * count, count);
  };
  for (std::int64_t r = 0; r < pass.ranks; ++r)
    losses.push_back(
        scheme_.loss(part(logits, r), {batch.inputs, part(batch.targets, r)}, terms_, pass));
  // The gradient of each part has overwritten its logits.
  if (pass.ranks > 1) losses[0].gradient = logits;
  for (std::size_t r = 1; r < losses.size(); ++r) losses[r].gradient = {};
  return losses;
}

bool ModelPasses::recomputes(std::size_t unit) const {
  return context_.plan.train.recompute == Recompute::full && unit + 1 < model_.units.size();
}

}  // namespace ringside
