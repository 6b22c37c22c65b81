#include "peer/gradient_shards.h"

#include <algorithm>
#include <utility>

#include "core/device/convert.h"
#include "peer/exposed.h"

namespace ringside::peer {
namespace {

/// Several micro-batches of a rank are one sum before other ranks see them, if there are any.
bool adds_up_first(const RunPlan& plan) {
  return plan.train.accumulation > 1 && (plan.train.reduce == Reduce::last || plan.world == 1);
}

}  // namespace

GradientShards::GradientShards(const RankContext& context, const Shards& shards, const Mesh& mesh,
                               bool whole)
    : context_(context),
      shards_(shards),
      mesh_(mesh),
      written_as_(parameter_dtype(context.plan.train)),
      reduced_as_(reduce_dtype(context.plan.train)),
      adds_up_first_(adds_up_first(context.plan)),
      sums_(context, shards,
            sum_dtype(context.plan.train) == written_as_ &&
                (whole || adds_up_first_ || shards.ranks() == 1),
            MemoryKind::gradient, sum_dtype(context.plan.train)) {
  if (sums_.values().dtype() != written_as_ && (whole || adds_up_first_ || shards.ranks() == 1))
    apart_.emplace(context, shards, true, MemoryKind::gradient, written_as_);
  // The padding has to be zero; all else is overwritten.
  if (!written().is_own_range()) context.device.kernels().fill({.out = written().values()});
}

Tensor GradientShards::target(std::size_t unit, const Pass& pass) {
  const Bundles& bundles = shards_.bundles();
  const std::size_t bundle = bundles.of(unit);
  const bool later = pass.micro_batch > 0;
  if (adds_up_first_ && later)
    return target_ = context_.device.tensor({bundles.model().units[unit]->layout().count()},
                                            MemoryKind::gradient, written_as_);
  if (unit == bundles[bundle].last) target_ = make_target(bundle, later);
  return bundles.part(target_, unit);
}

/// Returns where backward writes the gradient of a bundle: where whole gradients are, or beside.
Tensor GradientShards::make_target(std::size_t bundle, bool later) {
  if (written().whole() && !later) return written().bundle(bundle);
  make_room();
  const std::int64_t count = shards_.count(bundle), padded = shards_.padded_count(bundle);
  const Tensor out = context_.device.tensor({padded}, MemoryKind::communication, written_as_);
  if (padded > count) context_.device.kernels().fill({.out = out.range(count, padded - count)});
  return out;
}

void GradientShards::reduce(std::size_t unit, const Pass& pass) {
  const Bundles& bundles = shards_.bundles();
  const std::size_t bundle = bundles.of(unit);
  const bool later = pass.micro_batch > 0, complete = unit == bundles[bundle].first;
  if (adds_up_first_) {
    const Tensor sum = written().bundle(bundle);
    if (later) add(bundles.model().units[unit]->name(), target_, bundles.part(sum, unit));
    if (later || complete) target_ = {};
    if (complete && pass.last()) send(bundle, sum, false, {});
  } else if (complete) {
    const Tensor gradient = std::exchange(target_, {});
    send(bundle, gradient, later, later || !written().whole() ? gradient : Tensor{});
  }
}

/// Begins to sum a gradient over ranks. If it is the first one of a step, and of the dtype of the
/// sums, it is summed directly into this rank's shard. Any other one is summed into this rank's
/// part of what is sent, from which take() takes it.
void GradientShards::send(std::size_t bundle, const Tensor& gradient, bool later,
                          Tensor temporary) {
  Communicator *within = mesh_.within(), *across = mesh_.across();
  const bool converts = written_as_ != reduced_as_;
  if (!within && !across && !converts) return;
  const bool into_sums = !later && reduced_as_ == sums_.values().dtype();
  Tensor sent = gradient;
  if (converts) {
    temporary = {};
    sent = convert(bundle, gradient, into_sums && !within);
    if (!into_sums || within) temporary = sent;
  }
  const Tensor part = into_sums ? sums_.shard(bundle) : shards_.of_bundle(sent, bundle);
  WorkPtr work;
  if (within)
    work = within->reduce_scatter(sent, part);
  else if (across)
    work = across->all_reduce(part);
  if (!on_their_way_.empty()) cross(on_their_way_.back());
  on_their_way_.push_back(
      {bundle, part, later, std::move(temporary), std::move(work), within && across});
}

/// Returns a bundle's gradient in the dtype in which ranks sum it.
Tensor GradientShards::convert(std::size_t bundle, const Tensor& gradient, bool into_sums) {
  if (!into_sums) make_room();
  const auto span = context_.timeline.scope(Activity::encoding, "convert " + name(bundle));
  const Tensor out = into_sums ? sums_.shard(bundle)
                               : context_.device.tensor({gradient.count()},
                                                        MemoryKind::communication, reduced_as_);
  context_.device.kernels().cast({.in = gradient, .out = out});
  return out;
}

/// Sends a gradient that has been summed within the group across groups, if there are several.
void GradientShards::cross(OnItsWay& gradient) {
  if (!std::exchange(gradient.crosses, false)) return;
  wait(gradient, "reduce-scatter ");
  if (gradient.part.begins_at(sums_.shard(gradient.bundle))) gradient.temporary = {};
  gradient.work = mesh_.across()->all_reduce(gradient.part);
}

/// Waits until at most one gradient on its way has memory of its own.
void GradientShards::make_room() {
  const auto has_memory = [](const OnItsWay& one) { return static_cast<bool>(one.temporary); };
  while (std::count_if(on_their_way_.begin(), on_their_way_.end(), has_memory) > 1) finish_first();
}

void GradientShards::finish_first() {
  OnItsWay first = std::move(on_their_way_.front());
  on_their_way_.pop_front();
  cross(first);
  if (first.work) wait(first, mesh_.across() ? "all-reduce " : "reduce-scatter ");
  take(first);
}

/// Takes this rank's part of a sum over ranks, unless it was summed where it belongs.
void GradientShards::take(const OnItsWay& gradient) {
  const Tensor sum = sums_.shard(gradient.bundle);
  if (gradient.part.begins_at(sum)) return;
  if (gradient.later) return add(name(gradient.bundle), gradient.part, sum);
  const auto span =
      context_.timeline.scope(Activity::encoding, "convert the sum of " + name(gradient.bundle));
  context_.device.kernels().cast({.in = gradient.part, .out = sum});
}

void GradientShards::finish(std::size_t bundle) {
  const auto is_of_bundle = [bundle](const OnItsWay& one) { return one.bundle == bundle; };
  while (std::any_of(on_their_way_.begin(), on_their_way_.end(), is_of_bundle)) finish_first();
}

void GradientShards::finish_all() {
  while (!on_their_way_.empty()) finish_first();
}

void GradientShards::wait(OnItsWay& gradient, const std::string& operation) {
  wait_exposed(context_.timeline, operation + name(gradient.bundle), std::move(gradient.work));
}

void GradientShards::add(const std::string& name, const Tensor& in, const Tensor& out) {
  const auto span = context_.timeline.scope(Activity::compute, "add up " + name);
  add_converted(context_.device, in, out);
}

}  // namespace ringside::peer
