#include "peer/fsdp/shard_update.h"

#include "core/scheme/worker_optimizer.h"
#include "peer/schemes/scalar_sum.h"

namespace ringside::peer {
namespace {

/// Whether the optimizer reads the parameters when it is made: to bring them to the host, or to
/// make master values of them.
bool begins_with_values(const RankContext& context, const ShardedStorage& parameters) {
  return context.plan.train.offload != Offload::none || parameters.values().dtype() != DType::f32;
}

}  // namespace

ShardUpdate::ShardUpdate(const RankContext& context, const Shards& shards,
                         const ShardedStorage& parameters, GradientShards& gradients,
                         const Mesh& mesh)
    : context_(context),
      shards_(shards),
      parameters_(parameters),
      gradients_(gradients),
      mesh_(mesh),
      optimizer_(worker_optimizer(context, context.plan.world,
                                  parameters.own_range(begins_with_values(context, parameters)),
                                  shards.parameter_map())),
      expected_(shards.size()) {}

void ShardUpdate::backward_has_completed(std::size_t lowest, const StepInfo& info) {
  if (!optimizer_->expects() || gradients_.meets_once()) return;
  gradients_.finish_arrived();
  for (; expected_ > lowest && gradients_.is_summed(expected_ - 1, lowest); --expected_)
    optimizer_->expect(range(expected_ - 1), info);
}

bool ShardUpdate::step(const StepInfo& info) {
  gradients_.meet();
  const bool finite = optimizer_->rounds() > 0 ? step_at_once(info) : step_by_fsdp_unit(info);
  expected_ = shards_.size();
  if (gradients_.meets_once()) finish_all();  // before other ranks read the parameters
  return finite;
}

/// Updates an FSDP unit as soon as its gradient has arrived; other gradients may still be on their
/// way.
bool ShardUpdate::step_by_fsdp_unit(const StepInfo& info) {
  for (std::size_t b = shards_.size(); b-- > 0;) {
    gradients_.finish(b);
    const auto span =
        context_.timeline.scope(Activity::optimizer, "optimizer " + shards_.fsdp_units()[b].name);
    optimizer_->update(range(b), info);
  }
  return true;
}

/// Updates all FSDP units together, for optimizers that first need sums over the whole model: over
/// the shards of one group.
bool ShardUpdate::step_at_once(const StepInfo& info) {
  gradients_.finish_all();
  const auto span = context_.timeline.scope(Activity::optimizer, "optimizer");
  const std::vector<ParameterRange> all = ranges();
  const bool finite = settle_rounds(*optimizer_, all, info, [this](std::span<double> sums) {
    if (mesh_.within()) sum_over_ranks(context_.device, *mesh_.within(), sums, &context_.timeline);
  });
  for (std::size_t i = 0; finite && i < all.size(); ++i) optimizer_->update(all[i], info);
  return finite;
}

void ShardUpdate::finish(std::size_t fsdp_unit) {
  optimizer_->finish(shards_.begin(fsdp_unit), parameters_.shard(fsdp_unit).count());
}

void ShardUpdate::finish_all() {
  for (std::size_t b = 0; b < shards_.size(); ++b) finish(b);
}

/// The FSDP unit's shard, as the optimizer sees it.
ParameterRange ShardUpdate::range(std::size_t fsdp_unit) const {
  return {shards_.begin(fsdp_unit), parameters_.shard(fsdp_unit),
          gradients_.sums().shard(fsdp_unit)};
}

/// The shards of all FSDP units in as few ranges as they lie in.
std::vector<ParameterRange> ShardUpdate::ranges() const {
  const ShardedStorage& sums = gradients_.sums();
  if (parameters_.is_own_range() && sums.is_own_range())
    return {{0, parameters_.values(), sums.values()}};
  std::vector<ParameterRange> out;
  for (std::size_t b = 0; b < shards_.size(); ++b) out.push_back(range(b));
  return out;
}

}  // namespace ringside::peer
