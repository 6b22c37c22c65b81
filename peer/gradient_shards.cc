#include "peer/gradient_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "peer/exposed.h"

namespace ringside::peer {
namespace {

/// Several micro-batches of a rank are one sum before other ranks see them, if there are any.
bool adds_up_first(const RunPlan& plan) {
  return plan.train.accumulation > 1 && (plan.train.reduce == Reduce::last || plan.world == 1);
}

}  // namespace

GradientShards::GradientShards(const RankContext& context, const Shards& shards, const Mesh& mesh,
                               ShardCarrier* carrier, bool whole)
    : context_(context),
      shards_(shards),
      mesh_(mesh),
      carrier_(carrier),
      adds_up_first_(adds_up_first(context.plan)),
      sums_(context, shards, whole || adds_up_first_ || shards.ranks() == 1, MemoryKind::gradient) {
  // The padding has to be zero; all else is overwritten.
  if (!sums_.is_own_range()) context.device.kernels().fill({.out = sums_.values()});
}

Tensor GradientShards::target(std::size_t unit, const Pass& pass) {
  const Bundles& bundles = shards_.bundles();
  const std::size_t bundle = bundles.of(unit);
  const bool later = pass.micro_batch > 0;
  if (adds_up_first_ && later)
    return target_ = context_.device.tensor({bundles.model().units[unit]->layout().count()},
                                            MemoryKind::gradient, sums_.values().dtype());
  if (unit == bundles[bundle].last) {
    const auto has_memory = [](const OnItsWay& one) { return static_cast<bool>(one.temporary); };
    while (std::count_if(on_their_way_.begin(), on_their_way_.end(), has_memory) > 1)
      finish_first();
    target_ = make_target(bundle, later);
  }
  return bundles.part(target_, unit);
}

/// Returns where backward writes the gradient of a bundle: where the sum is, or beside it.
Tensor GradientShards::make_target(std::size_t bundle, bool later) const {
  if (sums_.whole() && !later) return sums_.bundle(bundle);
  const std::int64_t count = shards_.count(bundle), padded = shards_.padded_count(bundle);
  const Tensor out =
      context_.device.tensor({padded}, MemoryKind::communication, sums_.values().dtype());
  if (padded > count) context_.device.kernels().fill({.out = out.range(count, padded - count)});
  return out;
}

void GradientShards::reduce(std::size_t unit, const Pass& pass) {
  const Bundles& bundles = shards_.bundles();
  const std::size_t bundle = bundles.of(unit);
  const bool later = pass.micro_batch > 0, complete = unit == bundles[bundle].first;
  if (adds_up_first_) {
    const Tensor sum = sums_.bundle(bundle);
    if (later) add(bundles.model().units[unit]->name(), target_, bundles.part(sum, unit));
    if (later || complete) target_ = {};
    if (complete && pass.last()) send(bundle, sum, false, {});
  } else if (complete) {
    const Tensor gradient = std::exchange(target_, {});
    send(bundle, gradient, later, later || !sums_.whole() ? gradient : Tensor{});
  }
}

/// Begins to sum a gradient over ranks. The first one of a step is summed directly into this rank's
/// shard. A later one is summed into this rank's part of the gradient, which is then added to the
/// shard; or, if ranks meet once a step, it is added where the earlier ones are.
void GradientShards::send(std::size_t bundle, const Tensor& gradient, bool later,
                          Tensor temporary) {
  Communicator* across = mesh_.across();
  if (!carrier_ && !across) return;
  const bool beside = later && !(carrier_ && carrier_->meets_once());
  const Tensor part = beside ? shards_.of_bundle(gradient, bundle) : sums_.shard(bundle);
  WorkPtr work =
      carrier_ ? carrier_->reduce(bundle, gradient, part, later) : across->all_reduce(part);
  if (!on_their_way_.empty()) cross(on_their_way_.back());
  on_their_way_.push_back(
      {bundle, part, beside, std::move(temporary), std::move(work), carrier_ && across});
}

/// Sends a gradient that has been summed within the group across groups, if there are several.
void GradientShards::cross(OnItsWay& gradient) {
  if (!std::exchange(gradient.crosses, false)) return;
  wait(gradient, carrier_->reduces());
  if (!gradient.later) gradient.temporary = {};
  gradient.work = mesh_.across()->all_reduce(gradient.part);
}

void GradientShards::finish_first() {
  OnItsWay first = std::move(on_their_way_.front());
  on_their_way_.pop_front();
  cross(first);
  wait(first, mesh_.across() ? "all-reduce" : carrier_->reduces());
  if (first.later) add(name(first.bundle), first.part, sums_.shard(first.bundle));
}

void GradientShards::meet() {
  if (!carrier_ || !carrier_->meets_once()) return;
  finish_all();
  carrier_->meet(sums_);
}

void GradientShards::finish(std::size_t bundle) {
  const auto is_of_bundle = [bundle](const OnItsWay& one) { return one.bundle == bundle; };
  while (std::any_of(on_their_way_.begin(), on_their_way_.end(), is_of_bundle)) finish_first();
}

void GradientShards::finish_all() {
  while (!on_their_way_.empty()) finish_first();
}

void GradientShards::wait(OnItsWay& gradient, std::string_view operation) {
  wait_exposed(context_.timeline, fmt::format("{} {}", operation, name(gradient.bundle)),
               std::move(gradient.work));
}

void GradientShards::add(const std::string& name, const Tensor& in, const Tensor& out) {
  const auto span = context_.timeline.scope(Activity::compute, "add up " + name);
  context_.device.kernels().add({.in = in, .out = out});
}

}  // namespace ringside::peer
