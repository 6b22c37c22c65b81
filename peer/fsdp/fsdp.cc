#include "peer/fsdp/fsdp.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/scalar_sum.h"
#include "core/scheme/worker_optimizer.h"
#include "peer/fsdp/coded_carrier.h"
#include "peer/fsdp/gradient_shards.h"
#include "peer/fsdp/mesh.h"
#include "peer/fsdp/sharded_storage.h"
#include "peer/fsdp/unsharded_units.h"
#include "peer/schemes/exposed.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {
namespace {

/// Whether the optimizer reads the parameters when it is made: to bring them to the host, or to
/// make master values of them.
bool begins_with_values(const RankContext& context, const ShardedStorage& parameters) {
  return context.plan.train.offload != Offload::none || parameters.values().dtype() != DType::f32;
}

/// The optimizer of this rank's shards. For one thread; all ranks of a mesh do the same.
class ShardUpdate {
 public:
  /// All arguments outlive this object.
  ShardUpdate(const RankContext& context, const Shards& shards, const ShardedStorage& parameters,
              GradientShards& gradients, const Mesh& mesh);

  /// Notes that backward has completed the FSDP units from `lowest` on: the optimizer may begin
  /// with those of them whose sums have arrived.
  void backward_has_completed(std::size_t lowest, const StepInfo& info);
  /// Updates all shards; waits for gradients that are on their way. Returns false as
  /// Optimizer::settle().
  bool step(const StepInfo& info);
  /// Waits until this rank's shard of the FSDP unit, or of all FSDP units, is updated.
  void finish(std::size_t fsdp_unit);
  void finish_all();

  /// The state of all shards, and SyncScheme::restored().
  void visit_state(const StateVisitor& visit) const;
  void restored(std::int64_t skipped);

 private:
  ParameterRange range(std::size_t fsdp_unit) const;
  std::vector<ParameterRange> ranges() const;
  bool step_by_fsdp_unit(const StepInfo& info);
  bool step_at_once(const StepInfo& info);

  const RankContext& context_;
  const Shards& shards_;
  const ShardedStorage& parameters_;
  GradientShards& gradients_;
  const Mesh& mesh_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t expected_;  // the optimizer has been told of the FSDP units from this one on
};

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

/// Every group of the mesh has the same state. Padding is no part of it.
void ShardUpdate::visit_state(const StateVisitor& visit) const {
  std::vector<OwnStretch> stretches;
  for (std::size_t b = 0; b < shards_.size(); ++b)
    if (const std::int64_t real = shards_.real_count(b); real > 0)
      stretches.push_back({shards_.begin(b),
                           shards_.fsdp_units()[b].begin + shards_.begin_in_fsdp_unit(b),
                           parameters_.shard(b).range(0, real)});
  const int group = mesh_.shards();
  visit_optimizer(
      context_, *optimizer_, stretches,
      {.holder = context_.self().worker / group, .holders = context_.plan.world / group}, visit);
}

void ShardUpdate::restored(std::int64_t skipped) {
  std::vector<ParameterRange> all;
  for (std::size_t b = 0; b < shards_.size(); ++b)
    all.push_back({shards_.begin(b), parameters_.shard(b), {}});
  optimizer_->restored(all, skipped);
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

/// Whether the degree keeps parameters and gradients whole or in shards is known to ShardedStorage
/// alone; whether the ranks share the parameters is asked of it.
class Fsdp : public SyncScheme {
 public:
  Fsdp(const RankContext& context, const FsdpOptions& options)
      : SyncScheme(context),
        reshard_(options.reshard_after_forward),
        prefetch_(static_cast<std::size_t>(options.prefetch)),
        min_unit_parameters_(options.min_unit_parameters),
        bucket_bytes_(options.bucket_mb * 1e6),
        reads_in_place_(options.read_in_place),
        codes_(codes_of(options, context.plan.world)),
        automatic_(options.algorithm == Algorithm::automatic),
        degree_(degree_of(options.shard, options.shard_group, context.plan.world)),
        mesh_(context, degree_.group, options.algorithm) {}

  void attach(Model& model) override {
    model_ = &model;
    const RunPlan& plan = context().plan;
    fsdp_units_.emplace(model, min_unit_parameters_);
    complete_.assign(fsdp_units_->size(), false);
    buckets_.emplace(*fsdp_units_, reduce_dtype(plan.train), bucket_bytes_);
    shards_.emplace(*fsdp_units_, mesh_.shard(), mesh_.shards());
    HostSide* const host = plan.train.offload == Offload::parameters ? context().host : nullptr;
    const DType dtype = parameter_dtype(plan.train);
    Tensor shared;
    if (reads_in_place_ && !codes_.gathers() && degree_.parameters &&
        plan.train.offload == Offload::none)
      shared = mesh_.within()->share(shards_->own_count(), MemoryKind::parameter, dtype);
    if (shared)
      parameters_.emplace(context(), *shards_, shared);
    else
      parameters_.emplace(context(), *shards_, !degree_.parameters && !host, MemoryKind::parameter,
                          dtype, host);
    parameters_->initialise();
    if (shared) wait_for_all(context().timeline, *mesh_.within(), "parameters are initialised");
    carrier_ = codes_.any() && mesh_.within()
                   ? make_coded_carrier(context(), *mesh_.within(), *shards_, *buckets_,
                                        *parameters_, codes_)
                   : make_carrier(context(), degree_, mesh_.within(), *shards_, *parameters_);
    gradients_.emplace(context(), *shards_, *buckets_, mesh_, carrier_.get(), !degree_.gradients);
    gathered_.emplace(context(), model, *shards_, *parameters_, carrier_.get(),
                      [this](std::size_t b) { update_->finish(b); });
    update_.emplace(context(), *shards_, *parameters_, *gradients_, mesh_);
  }

  void before_forward(std::size_t unit, const Pass& pass) override {
    if (carrier_ && pass.training && pass.micro_batch == 0 && unit == 0) carrier_->begin_step();
    const Tensor parameters = gathered_->get_with_lender(unit);
    this->unit(unit).bind(parameters, {});
    gather_from(fsdp_units_->of(unit) + 1);
  }

  void after_forward(std::size_t unit, const Pass& pass) override {
    if (pass.training && !reshard_) return;
    const std::size_t fsdp_unit = fsdp_units_->of(unit);
    const bool turning = pass.training && fsdp_unit + 1 == fsdp_units_->size();
    if (unit == (*fsdp_units_)[fsdp_unit].last) {
      gathered_->free(fsdp_unit);
      if (turning) gather_below(fsdp_unit + 1);
    }
    if (const auto lender = gathered_->lender_fsdp_unit(unit); lender && !turning)
      gathered_->free(*lender);
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    const Tensor parameters = gathered_->get_with_lender(unit);
    gather_below(fsdp_units_->of(unit));
    this->unit(unit).bind(parameters, pass.halves ? Tensor{} : gradients_->target(unit, pass));
  }

  void after_input_gradient(std::size_t unit, const Pass&) override { free_after_backward(unit); }

  void before_weight_gradient(std::size_t unit, const Pass& pass) override {
    this->unit(unit).bind({}, gradients_->target(unit, pass));
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    const std::size_t fsdp_unit = fsdp_units_->of(unit);
    if (!pass.halves)
      free_after_backward(unit);
    else
      this->unit(unit).bind({}, {});  // or its gradient would stay until the unit's next pass
    gradients_->reduce(unit, pass);
    if (pass.last()) {
      complete_[fsdp_unit] = unit == (*fsdp_units_)[fsdp_unit].first;
      update_->backward_has_completed(lowest_complete(), {pass.step});
    }
    if (unit == 0 && !pass.last() && !pass.halves) gather_from(0);
  }

  bool step(const StepInfo& info) override {
    complete_.assign(fsdp_units_->size(), false);
    // A pipeline's schedule may end before it needs all that was gathered ahead.
    if (context().pipeline) free_all();
    const bool finite = update_->step(info);
    if (carrier_) carrier_->leave();
    if (finite) gathered_->refresh();
    return finite;
  }

  void amend(const std::function<void()>& put_right) override {
    free_all();
    gathered_->drain();
    if (carrier_) carrier_->leave();  // no rank reads the former values any more
    put_right();
    if (carrier_) carrier_->leave();
    gathered_->refresh();
  }

  void drain() override {
    update_->finish_all();
    gathered_->drain();
  }

  void sum(std::span<double> values) override {
    if (mesh_.world().size() > 1)
      sum_over_ranks(context().device, mesh_.world(), values, &context().timeline);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (carrier_) carrier_->gather_exactly(true);
    for (std::size_t u = 0; u < model_->units.size(); ++u) {
      const Tensor parameters = gathered_->get(u);
      visit(0, unit(u), parameters);
      if (u == (*fsdp_units_)[fsdp_units_->of(u)].last) gathered_->free(fsdp_units_->of(u));
    }
    if (carrier_) carrier_->leave();
    if (carrier_) carrier_->gather_exactly(false);
  }

  void visit_state(const StateVisitor& visit) override {
    update_->visit_state(visit);
    if (carrier_) carrier_->visit_state(visit);
  }
  void restored(std::int64_t skipped) override {
    update_->restored(skipped);
    if (parameters_->shared())
      wait_for_all(context().timeline, *mesh_.within(), "parameters are restored");
    gathered_->refresh();
    drain();
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> kept() const override {
    if (shards_->ranks() == 1) return {};
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    for (std::size_t b = 0; b < shards_->size(); ++b)
      if (const std::int64_t real = shards_->real_count(b); real > 0)
        out.emplace_back((*fsdp_units_)[b].begin + shards_->begin_in_fsdp_unit(b), real);
    return out;
  }

  Traffic traffic() const override {
    return mesh_.traffic() + (gathered_ ? gathered_->traffic() : Traffic{}) +
           (carrier_ ? carrier_->traffic() : Traffic{});
  }

  std::vector<SchemeFigure> figures() const override {
    if (!automatic_ || mesh_.world().rank() != 0) return {};
    std::vector<std::int64_t> counts;
    for (std::size_t b = 0; b < fsdp_units_->size(); ++b)
      counts.push_back(shards_->padded_count(b));
    const std::vector<int> group = some_workers(mesh_.shards());
    auto out = figures_of_choice(context().plan, Collective::Kind::reduce_scatter,
                                 gradients_->counts(), group, "reduce-scatters");
    if (parameters_->shared()) return out;
    for (auto& one : figures_of_choice(context().plan, Collective::Kind::all_gather, counts, group,
                                       "all-gathers"))
      out.push_back(std::move(one));
    return out;
  }

 private:
  Unit& unit(std::size_t u) const { return *model_->units[u]; }

  /// The first of the last FSDP units of which backward has completed all: in a pipeline units of
  /// several stages are complete in any order.
  std::size_t lowest_complete() const {
    std::size_t lowest = complete_.size();
    while (lowest > 0 && complete_[lowest - 1]) --lowest;
    return lowest;
  }
  void free_all() {
    for (std::size_t b = 0; b < fsdp_units_->size(); ++b) gathered_->free(b);
  }

  void free_after_backward(std::size_t unit) {
    const std::size_t fsdp_unit = fsdp_units_->of(unit);
    if (unit == (*fsdp_units_)[fsdp_unit].first) gathered_->free(fsdp_unit);
    // A lender stays gathered if it has been gathered for its own backward too.
    const auto lender = gathered_->lender_fsdp_unit(unit);
    if (lender && reshard_ && *lender + prefetch_ < fsdp_unit) gathered_->free(*lender);
  }

  /// Begin to gather the FSDP units that forward, or backward, computes next.
  void gather_from(std::size_t first) {
    for (std::size_t b = first; b < std::min(first + prefetch_, fsdp_units_->size()); ++b)
      gathered_->begin(b);
    if (first + prefetch_ < fsdp_units_->size()) gathered_->prepare(first + prefetch_);
  }
  void gather_below(std::size_t end) {
    for (std::size_t k = 1; k <= std::min(prefetch_, end); ++k) gathered_->begin(end - k);
    if (end > prefetch_) gathered_->prepare(end - prefetch_ - 1);
  }

  bool reshard_;  // after forward
  std::size_t prefetch_;
  std::int64_t min_unit_parameters_;
  double bucket_bytes_;
  bool reads_in_place_;
  Codes codes_;
  bool automatic_;  // the algorithm is chosen
  Degree degree_;
  Mesh mesh_;
  Model* model_ = nullptr;
  std::optional<FsdpUnits> fsdp_units_;
  std::optional<GradientBuckets> buckets_;
  std::optional<Shards> shards_;
  std::optional<ShardedStorage> parameters_;
  std::unique_ptr<ShardCarrier> carrier_;
  std::optional<GradientShards> gradients_;
  std::optional<UnshardedUnits> gathered_;
  std::optional<ShardUpdate> update_;
  std::vector<bool> complete_;  // each FSDP unit: backward of the step has completed it
};

}  // namespace

std::unique_ptr<SyncScheme> make_fsdp(const RankContext& context, const FsdpOptions& options) {
  check(options, context.plan);
  return std::make_unique<Fsdp>(context, options);
}

}  // namespace ringside::peer
