#include "peer/fsdp/gradient_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/device/convert.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {
namespace {

/// Several micro-batches of a rank are one sum before other ranks see them, if there are any.
bool adds_up_first(const RunPlan& plan) {
  return plan.train.accumulation > 1 && (plan.train.reduce == Reduce::last || plan.world == 1);
}

}  // namespace

GradientShards::GradientShards(const RankContext& context, const Shards& shards,
                               const GradientBuckets& buckets, const Mesh& mesh,
                               ShardCarrier* carrier, bool whole)
    : context_(context),
      shards_(shards),
      buckets_(buckets),
      mesh_(mesh),
      carrier_(carrier),
      rounds_((carrier ? carrier->rounds() : 1) + (carrier && mesh.across() ? 1 : 0)),
      takes_whole_(carrier && carrier->takes_whole()),
      written_as_(parameter_dtype(context.plan.train)),
      reduced_as_(reduce_dtype(context.plan.train)),
      adds_up_first_(adds_up_first(context.plan)),
      keeps_whole_(whole || adds_up_first_ || shards.ranks() == 1),
      sums_(context, shards, keeps_whole_ && sum_dtype(context.plan.train) == written_as_,
            MemoryKind::gradient, sum_dtype(context.plan.train)) {
  if (keeps_whole_ && !sums_.whole())
    apart_.emplace(context, shards, true, MemoryKind::gradient, written_as_);
  // The padding has to be zero; all else is overwritten.
  if (!written().is_own_range()) context.device.kernels().fill({.out = written().values()});
}

Tensor GradientShards::target(std::size_t unit, const Pass& pass) {
  const FsdpUnits& fsdp_units = shards_.fsdp_units();
  const std::size_t fsdp_unit = fsdp_units.of(unit);
  const bool later = pass.micro_batch > 0;
  if (adds_up_first_ && later)
    return target_ = context_.device.tensor({fsdp_units.model().units[unit]->layout().count()},
                                            MemoryKind::gradient, written_as_);
  if (unit == fsdp_units[fsdp_unit].last) target_ = make_target(fsdp_unit, later);
  return fsdp_units.part(target_, unit);
}

/// Returns where backward writes the gradient of an FSDP unit: where whole gradients are, or
/// beside.
Tensor GradientShards::make_target(std::size_t fsdp_unit, bool later) {
  if (keeps_whole_ && !later) return written().fsdp_unit(fsdp_unit);
  make_room();
  const std::int64_t count = shards_.count(fsdp_unit), padded = shards_.padded_count(fsdp_unit);
  const Tensor out = context_.device.tensor({padded}, MemoryKind::communication, written_as_);
  if (padded > count) context_.device.kernels().fill({.out = out.range(count, padded - count)});
  return out;
}

void GradientShards::reduce(std::size_t unit, const Pass& pass) {
  const FsdpUnits& fsdp_units = shards_.fsdp_units();
  const std::size_t fsdp_unit = fsdp_units.of(unit);
  const bool later = pass.micro_batch > 0, complete = unit == fsdp_units[fsdp_unit].first;
  if (adds_up_first_) {
    const Tensor sum = written().fsdp_unit(fsdp_unit);
    if (later) add(fsdp_units.model().units[unit]->name(), target_, fsdp_units.part(sum, unit));
    if (later || complete) target_ = {};
    if (complete && pass.last()) send(fsdp_unit, sum, false, {});
  } else if (complete) {
    const Tensor gradient = std::exchange(target_, {});
    send(fsdp_unit, gradient, later, later || !keeps_whole_ ? gradient : Tensor{});
  }
}

/// Takes an FSDP unit's gradient, and begins to sum its bucket over ranks if that is complete. If
/// it is the first one of a step, and of the dtype of the sums, it is summed directly into this
/// rank's shards; so is a later one if ranks meet once a step. Any other one is summed into this
/// rank's part of what is sent, from which take() takes it.
void GradientShards::send(std::size_t fsdp_unit, const Tensor& gradient, bool later,
                          Tensor temporary) {
  Communicator* across = mesh_.across();
  if (!carrier_ && !across && written_as_ == reduced_as_) return;
  const std::size_t b = buckets_.of(fsdp_unit);
  const GradientBucket& bucket = buckets_[b];
  const bool stays = !later || meets_once();
  const bool in_sums = stays && reduced_as_ == sums_.values().dtype() && is_one_stretch(b);
  const bool lies_as_sent = bucket.first == bucket.last || (shards_.ranks() == 1 && !later);
  const bool packs = written_as_ != reduced_as_ || !lies_as_sent;
  if (packs) pack(fsdp_unit, gradient, in_sums && !carrier_);
  if (fsdp_unit != bucket.first) return;
  Tensor sent = gradient;
  if (packs)
    sent = std::exchange(packed_, {});
  else if (bucket.first != bucket.last)
    sent = part_of_sums(b);
  if (packs) temporary = in_sums && !carrier_ ? Tensor{} : sent;
  const Tensor part = in_sums ? part_of_sums(b) : part_of_sent(b, sent);
  if (carrier_ && carrier_->one_at_a_time())
    while (!is_summed(fsdp_unit, fsdp_unit)) finish_first();
  WorkPtr work = begin_traced(context_.timeline, bucket.name, [&]() -> WorkPtr {
    if (carrier_) return carrier_->reduce(fsdp_unit, bucket.name, sent, part, later);
    return across ? begin_across(bucket.name, part) : nullptr;
  });
  OnItsWay next{b, part, in_sums, later, std::move(temporary), std::move(work)};
  while (!next.work && next.round + 1 < rounds_) go_on(next);
  for (OnItsWay& earlier : on_their_way_)
    if (earlier.round + 1 < rounds_) go_on(earlier);
  on_their_way_.push_back(std::move(next));
}

/// Copies an FSDP unit's gradient to its places in what is sent of the bucket.
void GradientShards::pack(std::size_t fsdp_unit, const Tensor& gradient, bool in_sums) {
  const std::size_t b = buckets_.of(fsdp_unit);
  const std::int64_t ranks = shards_.ranks(), count = part_count(b);
  if (!packed_ && !in_sums) make_room();
  if (!packed_) packed_ = in_sums ? part_of_sums(b) : new_packed(b);
  const auto span =
      context_.timeline.scope(Activity::encoding, "pack " + shards_.fsdp_units()[fsdp_unit].name,
                              {.bytes = static_cast<std::int64_t>(gradient.bytes())});
  if (takes_whole_) {
    const FsdpUnit& unit = shards_.fsdp_units()[fsdp_unit];
    context_.device.kernels().cast(
        {.in = gradient.range(0, unit.count),
         .out = packed_.range(unit.begin - buckets_[b].begin, unit.count)});
    return;
  }
  const std::int64_t begin = shards_.begin(fsdp_unit) - shards_.begin(buckets_[b].first);
  const std::int64_t shard = gradient.count() / ranks;
  context_.device.kernels().cast({.in = gradient,
                                  .out = packed_.range(begin, (ranks - 1) * count + shard),
                                  .rows = ranks,
                                  .stride = count});
}

Tensor GradientShards::new_packed(std::size_t bucket) const {
  const std::int64_t count =
      takes_whole_ ? buckets_[bucket].count : shards_.ranks() * part_count(bucket);
  return context_.device.tensor({count}, MemoryKind::communication, reduced_as_);
}

/// A part of a whole bucket of one FSDP unit is where it was sent; of several, it has to be put
/// together.
Tensor GradientShards::part_of_sent(std::size_t bucket, const Tensor& sent) const {
  const std::int64_t count = part_count(bucket);
  if (takes_whole_ && buckets_[bucket].first != buckets_[bucket].last)
    return context_.device.tensor({count}, MemoryKind::communication, reduced_as_);
  return sent.range(shards_.rank() * count, count);
}

std::int64_t GradientShards::part_count(std::size_t bucket) const {
  return buckets_.part_count(bucket, shards_);
}

bool GradientShards::is_one_stretch(std::size_t bucket) const {
  return sums_.is_own_range() || buckets_[bucket].first == buckets_[bucket].last;
}

Tensor GradientShards::part_of_sums(std::size_t bucket) const {
  const std::size_t first = buckets_[bucket].first;
  if (!sums_.is_own_range()) return sums_.shard(first);
  return sums_.values().range(shards_.begin(first), part_count(bucket));
}

std::vector<std::int64_t> GradientShards::counts() const {
  std::vector<std::int64_t> out;
  for (std::size_t b = 0; b < buckets_.size(); ++b) out.push_back(part_count(b) * shards_.ranks());
  return out;
}

/// Waits for a gradient's round, and begins its next one: of the carrier, or, after these, across
/// groups.
void GradientShards::go_on(OnItsWay& gradient) {
  if (gradient.work) wait(gradient, carrier_->reduces());
  if (gradient.in_sums && !takes_whole_) gradient.temporary = {};
  const GradientBucket& bucket = buckets_[gradient.bucket];
  const int round = ++gradient.round;
  gradient.work = begin_traced(context_.timeline, bucket.name, [&] {
    return round < carrier_->rounds() ? carrier_->go_on(bucket.first, round)
                                      : begin_across(bucket.name, gradient.part);
  });
}

WorkPtr GradientShards::begin_across(const std::string& name, const Tensor& part) {
  mesh_.across()->name_next(name);
  return mesh_.across()->all_reduce(part);
}

/// Waits until at most one gradient on its way has memory of its own; if all rounds need it, one
/// for each round, so that each has the backward of a bucket to hide behind.
void GradientShards::make_room() {
  const auto has_memory = [](const OnItsWay& one) { return static_cast<bool>(one.temporary); };
  const int most = takes_whole_ ? rounds_ : 1;
  while (std::count_if(on_their_way_.begin(), on_their_way_.end(), has_memory) > most)
    finish_first();
}

void GradientShards::finish_first() {
  OnItsWay first = std::move(on_their_way_.front());
  on_their_way_.pop_front();
  while (first.round + 1 < rounds_) go_on(first);
  if (first.work) wait(first, mesh_.across() ? "all-reduce" : carrier_->reduces());
  if (carrier_) carrier_->reduced(buckets_[first.bucket].first, first.part);
  take(first);
}

/// Takes this rank's part of a sum over ranks, unless it was summed where it belongs.
void GradientShards::take(const OnItsWay& gradient) {
  if (gradient.in_sums) return;
  const GradientBucket& bucket = buckets_[gradient.bucket];
  const auto take_part = [&](const Tensor& part, const Tensor& sum) {
    if (gradient.later) return add(bucket.name, part, sum);
    const auto span = context_.timeline.scope(Activity::encoding, "unpack " + bucket.name,
                                              {.bytes = static_cast<std::int64_t>(part.bytes())});
    context_.device.kernels().cast({.in = part, .out = sum});
  };
  if (is_one_stretch(gradient.bucket))
    return take_part(gradient.part, part_of_sums(gradient.bucket));
  std::int64_t begin = 0;
  for (std::size_t b = bucket.first; b <= bucket.last; ++b) {
    const Tensor sum = sums_.shard(b);
    take_part(gradient.part.range(begin, sum.count()), sum);
    begin += sum.count();
  }
}

void GradientShards::meet() {
  if (!meets_once()) return;
  finish_all();
  carrier_->meet(sums_);
}

bool GradientShards::is_summed(std::size_t fsdp_unit, std::size_t lowest) const {
  const std::size_t bucket = buckets_.of(fsdp_unit);
  return buckets_[bucket].first >= lowest &&
         std::none_of(on_their_way_.begin(), on_their_way_.end(),
                      [bucket](const OnItsWay& one) { return one.bucket == bucket; });
}

void GradientShards::finish(std::size_t fsdp_unit) {
  while (!is_summed(fsdp_unit, 0)) finish_first();
}

void GradientShards::finish_arrived() {
  const auto arrived = [this](const OnItsWay& one) {
    return one.round + 1 == rounds_ && (!one.work || one.work->ready());
  };
  while (!on_their_way_.empty() && arrived(on_their_way_.front())) finish_first();
}

void GradientShards::finish_all() {
  while (!on_their_way_.empty()) finish_first();
}

void GradientShards::wait(OnItsWay& gradient, std::string_view operation) {
  wait_exposed(context_.timeline, fmt::format("{} {}", operation, buckets_[gradient.bucket].name),
               std::move(gradient.work));
}

void GradientShards::add(const std::string& name, const Tensor& in, const Tensor& out) {
  const auto span = context_.timeline.scope(Activity::compute, "add up " + name,
                                            {.bytes = static_cast<std::int64_t>(in.bytes())});
  add_converted(context_.device, in, out);
}

}  // namespace ringside::peer
