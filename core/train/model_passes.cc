#include "core/train/model_passes.h"

#include <utility>

#include "core/plan/slices.h"
#include "core/train/part_of_run.h"
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
      slowdown_(whole_run(context).plan, whole_run(context).self().worker, context.device) {}

void ModelPasses::begin_step(std::int64_t step, float gradient_scale, const Loader& training) {
  slowdown_.begin_step(step);
  terms_.gradient_scale = gradient_scale;
  count_targets(training, step);
}

std::vector<Loss> ModelPasses::train(const Pass& pass, const Loader& training) {
  MicroBatch one = begin(pass, pass.step, training, {0, model_.units.size()});
  forward(one, {});
  backward(one, {}, one.units, /*halves=*/false);
  return std::move(one.losses);
}

LossValue ModelPasses::evaluate(const Pass& pass, std::int64_t index, const Loader& held_out) {
  count_targets(held_out, index);
  MicroBatch one = begin(pass, index, held_out, {0, model_.units.size()});
  forward(one, {});
  return value_of(context_.device, one.losses[0]);
}

void ModelPasses::count_targets(const Loader& loader, std::int64_t index) {
  counted_ = &loader;
  counted_index_ = index;
  terms_.targets = loader.targets({index, 0, terms_.global_batch});
}

MicroBatch ModelPasses::begin(Pass pass, std::int64_t index, const Loader& loader,
                              UnitRange units) {
  BatchSlice slice = slice_of(context_.plan, context_.self().worker, index, pass.micro_batch);
  slice.count *= pass.ranks;
  pass.first_sample = slice.first;
  MicroBatch out{.pass = pass, .units = units};
  const std::size_t count = units.last - units.first;
  out.side = SideValues(model_.edges.size());
  out.inputs.resize(count);
  if (begins(units) || ends(units)) out.batch = scheme_.fetch(slice, loader, pass);
  return out;
}

Tensor ModelPasses::forward(MicroBatch& of, Tensor x) {
  of.saved.assign(of.units.last - of.units.first, Saved(of.side));
  if (begins(of.units)) x = of.batch.inputs;
  for (std::size_t u = of.units.first; u < of.units.last; ++u) {
    scheme_.before_forward(u, of.pass);
    if (bound_) bound_(u);
    x = run_unit(of, u, x);
    scheme_.after_forward(u, of.pass);
  }
  const Batch batch = std::exchange(of.batch, {});
  if (!ends(of.units)) return x;
  of.losses = losses_of(x, batch, of.pass);
  return {};
}

Tensor ModelPasses::run_unit(MicroBatch& of, std::size_t unit, const Tensor& input) {
  const std::size_t own = unit - of.units.first;
  const auto span =
      context_.timeline.scope(Activity::compute, "forward " + model_.units[unit]->name());
  const Slowdown::Part part(slowdown_);
  Pass pass = of.pass;
  if (pass.training && recomputes(unit)) of.inputs[own] = input;
  pass.keep = pass.training && !recomputes(unit);
  Tensor x = model_.units[unit]->forward(input, pass, of.saved[own]);
  if (pass.training && is_last(unit)) faults_.poison(context_.device, x, pass);
  if (pass.training) outputs_.look_at(context_.device, pass, unit, model_.units.size(), x);
  return x;
}

Tensor ModelPasses::backward(MicroBatch& of, Tensor gradient, UnitRange units, bool halves) {
  of.pass.halves = halves;
  if (units.last > units.first && ends(units)) {
    if (context_.plan.train.skip_not_finite > 0) spoil_gradient(context_.device, of.losses);
    gradient = std::exchange(of.losses[0].gradient, {});
  }
  for (std::size_t u = units.last; u-- > units.first;) {
    Unit& unit = *model_.units[u];
    scheme_.before_backward(u, of.pass);
    {
      const auto span = context_.timeline.scope(
          Activity::compute, (halves ? "input gradient " : "backward ") + unit.name());
      const Slowdown::Part part(slowdown_);
      if (recomputes(u)) recompute(of, u);
      Saved& saved = of.saved[u - of.units.first];
      saved.put_weights_off(halves);
      gradient = unit.backward(gradient, saved);
    }
    if (halves)
      scheme_.after_input_gradient(u, of.pass);
    else
      scheme_.after_backward(u, of.pass);
  }
  return gradient;
}

void ModelPasses::weight_gradients(MicroBatch& of, UnitRange units) {
  for (std::size_t u = units.last; u-- > units.first;) {
    scheme_.before_weight_gradient(u, of.pass);
    {
      const auto span =
          context_.timeline.scope(Activity::compute, "weight gradient " + model_.units[u]->name());
      const Slowdown::Part part(slowdown_);
      of.saved[u - of.units.first].finish_weights();
    }
    scheme_.after_backward(u, of.pass);
  }
}

void ModelPasses::recompute(MicroBatch& of, std::size_t unit) {
  const std::size_t own = unit - of.units.first;
  Pass pass = of.pass;
  pass.keep = pass.again = true;
  model_.units[unit]->forward(std::exchange(of.inputs[own], {}), pass, of.saved[own]);
}

std::vector<Loss> ModelPasses::losses_of(const Tensor& logits, const Batch& batch,
                                         const Pass& pass) {
  const std::int64_t mean = terms_.gradient_batch;
  terms_.gradient_targets =
      terms_.targets == 0 || mean == terms_.global_batch
          ? terms_.targets
          : counted_->targets({counted_index_, pass.first_sample / mean * mean, mean});
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

bool ModelPasses::begins(UnitRange units) const {
  return (model_.part ? model_.part->units[units.first] : units.first) == 0;
}

bool ModelPasses::ends(UnitRange units) const { return is_last(units.last - 1); }

bool ModelPasses::is_last(std::size_t unit) const {
  return model_.part ? model_.part->units[unit] + 1 == model_.part->all_units
                     : unit + 1 == model_.units.size();
}

bool ModelPasses::recomputes(std::size_t unit) const {
  return context_.plan.train.recompute == Recompute::full && !is_last(unit);
}

}  // namespace ringside
