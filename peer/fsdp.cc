#include "peer/fsdp.h"

#include <deque>
#include <optional>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "peer/exposed.h"
#include "peer/gathered.h"
#include "peer/scalar_sum.h"
#include "peer/shards.h"

namespace ringside::peer {
namespace {

/// The memory of whole units (gathered parameters, gradients on their way to their shards) is of
/// kind communication. Whole gradients that are added up until the last micro-batch are of kind
/// gradient.
class Fsdp : public SyncScheme {
 public:
  Fsdp(const RankContext& context, const FsdpOptions& options)
      : SyncScheme(context),
        prefetch_(options.prefetch == 1),
        communicator_(context.communicator(all_workers(context, "fsdp"))) {}

  void attach(Model& model) override {
    model_ = &model;
    shards_.emplace(model, communicator_->rank(), communicator_->size());
    const RunPlan& plan = context().plan;
    parameters_ = device().tensor({shards_->own_count()}, MemoryKind::parameter, dtype());
    gradients_ = device().tensor({shards_->own_count()}, MemoryKind::gradient, dtype());
    shards_->initialise(context(), parameters_);
    if (plan.train.reduce == Reduce::last && plan.train.accumulation > 1) {
      whole_ = device().tensor({shards_->whole_count()}, MemoryKind::gradient, dtype());
      device().kernels().fill({.out = whole_});  // the padding; the rest is overwritten
    }
    gathered_.emplace(context(), model, *shards_, parameters_, *communicator_);
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.world}, device(),
                                parameters_, shards_->parameter_map());
  }

  void before_forward(std::size_t unit, const Pass&) override {
    const Tensor parameters = gathered_->get_with_lender(unit);
    this->unit(unit).bind(parameters, {});
    if (prefetch_ && unit + 1 < shards_->units()) gathered_->begin(unit + 1);
  }

  void after_forward(std::size_t unit, const Pass& pass) override {
    gathered_->free(unit);
    const bool turning = pass.training && unit + 1 == shards_->units();
    if (prefetch_ && turning) gathered_->begin(unit);
    if (const auto lender = gathered_->lender(unit); lender && !turning) gathered_->free(*lender);
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    const Tensor parameters = gathered_->get_with_lender(unit);
    if (prefetch_ && unit > 0) gathered_->begin(unit - 1);
    while (scattering_.size() > 1) finish_scatter();  // keeps at most 2 units' gradients
    const std::int64_t count = this->unit(unit).layout().count();
    if (whole_ && pass.micro_batch == 0) {
      gradient_ = shards_->of_whole(whole_, unit);
    } else {
      const std::int64_t padded = shards_->padded_count(unit);
      gradient_ = device().tensor({padded}, MemoryKind::communication, dtype());
      if (padded > count) device().kernels().fill({.out = gradient_.range(count, padded - count)});
    }
    this->unit(unit).bind(parameters, gradient_.range(0, count));
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    gathered_->free(unit);
    // With prefetch, a lender stays gathered if it is the next unit to be computed.
    if (const auto lender = gathered_->lender(unit); lender && !(prefetch_ && *lender + 1 == unit))
      gathered_->free(*lender);
    if (whole_)
      scatter_in_the_end(unit, pass);
    else
      scatter(unit, pass.micro_batch == 0);
    gradient_ = {};
    if (prefetch_ && unit == 0 && !pass.last()) gathered_->begin(0);
  }

  bool step(const StepInfo& info) override {
    if (optimizer_->rounds() > 0) return step_at_once(info);
    // Updates a unit as soon as its gradient has arrived; gradients of other units may still be on
    // their way.
    for (std::size_t u = shards_->units(); u-- > 0;) {
      while (!scattering_.empty() && scattering_.front().unit >= u) finish_scatter();
      const auto span =
          context().timeline.scope(Activity::optimizer, "optimizer " + unit(u).name());
      optimizer_->update(
          {shards_->begin(u), shards_->of_own(parameters_, u), shards_->of_own(gradients_, u)},
          info);
    }
    return true;
  }

  void sum(std::span<double> values) override { sum_over_ranks(device(), *communicator_, values); }

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < shards_->units(); ++u) {
      const Tensor parameters = gathered_->get(u);
      if (communicator_->rank() == 0) visit(0, unit(u), parameters);
      gathered_->free(u);
    }
  }

  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  /// A gradient on its way to its shards. `part` receives this rank's part of the sum, which is
  /// then added to this rank's shard; `part` is empty if the shard itself receives the sum.
  struct Scattering {
    std::size_t unit;
    Tensor part;
    Tensor whole;
    WorkPtr work;
  };

  Device& device() const { return context().device; }
  DType dtype() const { return parameter_dtype(context().plan.train); }
  Unit& unit(std::size_t u) const { return *model_->units[u]; }

  /// Sends the unit's gradient to its shards. A step's first gradient is summed directly into the
  /// shard. A later one is summed into this rank's part of `gradient_`, and finish_scatter() adds
  /// this part to the shard.
  void scatter(std::size_t u, bool first) {
    const Tensor part = first ? shards_->of_own(gradients_, u) : shards_->of_unit(gradient_, u);
    WorkPtr work = communicator_->reduce_scatter(gradient_, part);
    scattering_.push_back({u, first ? Tensor{} : part, gradient_, std::move(work)});
  }

  /// Adds the unit's gradient to the sum over the earlier micro-batches. After the last
  /// micro-batch, sends the sum to its shards.
  void scatter_in_the_end(std::size_t u, const Pass& pass) {
    const std::int64_t count = unit(u).layout().count();
    const Tensor sum = shards_->of_whole(whole_, u);
    if (pass.micro_batch > 0) {
      const auto span = context().timeline.scope(Activity::compute, "add up " + unit(u).name());
      device().kernels().add({.in = gradient_.range(0, count), .out = sum.range(0, count)});
    }
    if (!pass.last()) return;
    gradient_ = sum;
    scatter(u, true);
  }

  /// Updates all units together, for optimizers that first need sums over the whole model.
  bool step_at_once(const StepInfo& info) {
    while (!scattering_.empty()) finish_scatter();
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, parameters_, gradients_};
    const bool finite =
        settle_rounds(*optimizer_, all, info, [this](std::span<double> sums) { sum(sums); });
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  void finish_scatter() {
    Scattering first = std::move(scattering_.front());
    scattering_.pop_front();
    wait_exposed(context().timeline, "reduce-scatter " + unit(first.unit).name(),
                 std::move(first.work));
    if (!first.part) return;
    const auto span =
        context().timeline.scope(Activity::compute, "add up " + unit(first.unit).name());
    device().kernels().add({.in = first.part, .out = shards_->of_own(gradients_, first.unit)});
  }

  bool prefetch_;
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Shards> shards_;
  Tensor parameters_, gradients_;  // of this rank's shards
  Tensor whole_;                   // whole gradients, added up until the last micro-batch
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<GatheredUnits> gathered_;
  Tensor gradient_;  // of the unit in backward
  std::deque<Scattering> scattering_;
};

}  // namespace

Fields fields_of(FsdpOptions& options) {
  return {
      {"prefetch", &options.prefetch, "units gathered ahead of the one that is computed (0 or 1)"}};
}

void check(const FsdpOptions& options) {
  if (options.prefetch != 0 && options.prefetch != 1)
    throw Error("scheme.fsdp.prefetch = {} must be 0 or 1", options.prefetch);
}

std::unique_ptr<SyncScheme> make_fsdp(const RankContext& context, const FsdpOptions& options) {
  check(options);
  return std::make_unique<Fsdp>(context, options);
}

double fsdp_minimum_bytes(const StepShape& shape) {
  const double n = shape.world;
  const std::int64_t gathered =
      (2 * shape.parameter_bytes + shape.lent_bytes) * shape.micro_batches;
  const std::int64_t scattered = shape.parameter_bytes * shape.reductions;
  return (n - 1) / n * static_cast<double>(gathered + scattered);
}

}  // namespace ringside::peer
