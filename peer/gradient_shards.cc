#include "peer/gradient_shards.h"

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
                               bool whole)
    : context_(context),
      shards_(shards),
      mesh_(mesh),
      adds_up_first_(adds_up_first(context.plan)),
      sums_(context, shards, whole || adds_up_first_ || shards.ranks() == 1, MemoryKind::gradient) {
  // The padding has to be zero; all else is overwritten.
  if (!sums_.is_own_range()) context.device.kernels().fill({.out = sums_.values()});
}

Tensor GradientShards::target(std::size_t unit, const Pass& pass) {
  const auto has_memory = [](const OnItsWay& one) { return static_cast<bool>(one.temporary); };
  while (std::count_if(on_their_way_.begin(), on_their_way_.end(), has_memory) > 1) finish_first();
  Device& device = context_.device;
  const DType dtype = sums_.values().dtype();
  const std::int64_t count = shards_.count(unit), padded = shards_.padded_count(unit);
  if (sums_.whole() && pass.micro_batch == 0) {
    target_ = sums_.unit(unit);
  } else if (adds_up_first_) {
    target_ = device.tensor({count}, MemoryKind::gradient, dtype);
  } else {
    target_ = device.tensor({padded}, MemoryKind::communication, dtype);
    if (padded > count) device.kernels().fill({.out = target_.range(count, padded - count)});
  }
  return target_.range(0, count);
}

void GradientShards::reduce(std::size_t unit, const Pass& pass) {
  const Tensor gradient = std::exchange(target_, {});
  const bool later = pass.micro_batch > 0;
  if (!adds_up_first_)
    return send(unit, gradient, later, later || !sums_.whole() ? gradient : Tensor{});
  const Tensor sum = sums_.unit(unit);
  if (later) add(unit, gradient, sum.range(0, shards_.count(unit)));
  if (pass.last()) send(unit, sum, false, {});
}

/// Begins to sum a gradient over ranks. The first one of a step is summed directly into this rank's
/// shard. A later one is summed into this rank's part of the gradient, which is then added to the
/// shard.
void GradientShards::send(std::size_t unit, const Tensor& gradient, bool later, Tensor temporary) {
  Communicator *within = mesh_.within(), *across = mesh_.across();
  if (!within && !across) return;
  const Tensor part = later ? shards_.of_unit(gradient, unit) : sums_.shard(unit);
  WorkPtr work = within ? within->reduce_scatter(gradient, part) : across->all_reduce(part);
  if (!on_their_way_.empty()) cross(on_their_way_.back());
  on_their_way_.push_back(
      {unit, part, later, std::move(temporary), std::move(work), within && across});
}

/// Sends a gradient that has been summed within the group across groups, if there are several.
void GradientShards::cross(OnItsWay& gradient) {
  if (!std::exchange(gradient.crosses, false)) return;
  wait(gradient, "reduce-scatter ");
  if (!gradient.later) gradient.temporary = {};
  gradient.work = mesh_.across()->all_reduce(gradient.part);
}

void GradientShards::finish_first() {
  OnItsWay first = std::move(on_their_way_.front());
  on_their_way_.pop_front();
  cross(first);
  wait(first, mesh_.across() ? "all-reduce " : "reduce-scatter ");
  if (first.later) add(first.unit, first.part, sums_.shard(first.unit));
}

void GradientShards::finish(std::size_t unit) {
  const auto is_of_unit = [unit](const OnItsWay& one) { return one.unit == unit; };
  while (std::any_of(on_their_way_.begin(), on_their_way_.end(), is_of_unit)) finish_first();
}

void GradientShards::finish_all() {
  while (!on_their_way_.empty()) finish_first();
}

void GradientShards::wait(OnItsWay& gradient, const std::string& operation) {
  wait_exposed(context_.timeline, operation + name(gradient.unit), std::move(gradient.work));
}

void GradientShards::add(std::size_t unit, const Tensor& in, const Tensor& out) {
  const auto span = context_.timeline.scope(Activity::compute, "add up " + name(unit));
  context_.device.kernels().add({.in = in, .out = out});
}

const std::string& GradientShards::name(std::size_t unit) const {
  return shards_.model().units[unit]->name();
}

}  // namespace ringside::peer
