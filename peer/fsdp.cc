#include "peer/fsdp.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/parameter_map.h"
#include "peer/exposed.h"
#include "peer/scalar_sum.h"

namespace ringside::peer {
namespace {

/// A unit's range is padded with zeros to N equal shards; rank r keeps the r-th. This rank's
/// shards of all units stand one after the other in one range of parameters, one of gradients and
/// one of optimizer state. Whole units (gathered parameters, gradients on their way to their
/// shards) are of kind communication, but for gradients that wait for the last micro-batch.
class Fsdp : public SyncScheme {
 public:
  Fsdp(const RankContext& context, const FsdpOptions& options)
      : SyncScheme(context),
        prefetch_(options.prefetch == 1),
        communicator_(context.communicator(all_workers(context, "fsdp"))) {}

  void attach(Model& model) override {
    model_ = &model;
    std::int64_t total = 0;
    for (const auto& unit : model.units) {
      const std::int64_t count = (unit->layout().count() + ranks() - 1) / ranks();
      shards_.push_back({total, count});
      total += count;
    }
    const RunPlan& plan = context().plan;
    parameters_ = device().tensor({total}, MemoryKind::parameter, dtype());
    gradients_ = device().tensor({total}, MemoryKind::gradient, dtype());
    for (std::size_t u = 0; u < shards_.size(); ++u) initialise_shard(u);
    if (plan.train.reduce == "last" && plan.train.accumulation > 1) {
      whole_ = device().tensor({total * ranks()}, MemoryKind::gradient, dtype());
      device().kernels().fill({.out = whole_});  // the padding; the rest is overwritten
    }
    for (const auto& unit : model.units) lenders_.push_back(lender_of(*unit));
    optimizer_ = make_optimizer(plan.optimizer, {plan.train.steps, plan.world}, device(),
                                parameters_, shard_map());
  }

  void before_forward(std::size_t unit, const Pass&) override {
    const Tensor parameters = gathered_with_lender(unit);
    this->unit(unit).bind(parameters, {});
    if (prefetch_ && unit + 1 < shards_.size()) launch_gather(unit + 1);
  }

  void after_forward(std::size_t unit, const Pass& pass) override {
    free(unit);
    const bool turning = pass.training && unit + 1 == shards_.size();
    if (prefetch_ && turning) launch_gather(unit);
    if (lenders_[unit] && !turning) free(*lenders_[unit]);
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    const Tensor parameters = gathered_with_lender(unit);
    if (prefetch_ && unit > 0) launch_gather(unit - 1);
    while (scattering_.size() > 1) finish_scatter();  // with this unit's, at most two are alive
    const std::int64_t count = this->unit(unit).layout().count();
    const std::int64_t padded = shards_[unit].count * ranks();
    if (whole_ && pass.micro_batch == 0) {
      gradient_ = whole_of(unit);
    } else {
      gradient_ = device().tensor({padded}, MemoryKind::communication, dtype());
      if (padded > count) device().kernels().fill({.out = gradient_.range(count, padded - count)});
    }
    this->unit(unit).bind(parameters, gradient_.range(0, count));
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    free(unit);
    // The unit before this one is gathered already, to be computed next.
    if (const auto lender = lenders_[unit]; lender && !(prefetch_ && *lender + 1 == unit))
      free(*lender);
    if (whole_)
      scatter_in_the_end(unit, pass);
    else
      scatter(unit, pass.micro_batch == 0);
    gradient_ = {};
    if (prefetch_ && unit == 0 && !pass.last()) launch_gather(0);
  }

  bool step(const StepInfo& info) override {
    if (optimizer_->rounds() > 0) return step_at_once(info);
    // What has arrived is updated while the rest is on its way.
    for (std::size_t u = shards_.size(); u-- > 0;) {
      while (!scattering_.empty() && scattering_.front().unit >= u) finish_scatter();
      const auto span =
          context().timeline.scope(Activity::optimizer, "optimizer " + unit(u).name());
      optimizer_->update({shards_[u].begin, shard_of(parameters_, u), shard_of(gradients_, u)},
                         info);
    }
    return true;
  }

  void sum(std::span<double> values) override { sum_over_ranks(device(), *communicator_, values); }

  void visit_parameters(const ParameterVisitor& visit) override {
    for (std::size_t u = 0; u < shards_.size(); ++u) {
      const Tensor parameters = gathered(u);
      if (communicator_->rank() == 0) visit(unit(u), parameters);
      free(u);
    }
  }

  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  /// Elements of this rank's ranges.
  struct Shard {
    std::int64_t begin, count;
  };
  /// A whole unit's parameters; `work` while they are on their way.
  struct Gathered {
    Tensor whole;
    WorkPtr work;
  };
  /// A gradient on its way to its shard; `part`: what is to be added to the shard, or empty.
  struct Scattering {
    std::size_t unit;
    Tensor part;
    Tensor whole;
    WorkPtr work;
  };

  std::int64_t ranks() const { return communicator_->size(); }
  Device& device() const { return context().device; }
  DType dtype() const { return parameter_dtype(context().plan.train); }
  Unit& unit(std::size_t u) const { return *model_->units[u]; }
  Tensor shard_of(const Tensor& all, std::size_t u) const {
    return all.range(shards_[u].begin, shards_[u].count);
  }

  void initialise_shard(std::size_t u) {
    const Tensor shard = shard_of(parameters_, u);
    const std::int64_t begin = communicator_->rank() * shard.count();
    const std::int64_t real =
        std::clamp<std::int64_t>(unit(u).layout().count() - begin, 0, shard.count());
    if (real > 0)
      initial_values(context())->write(unit(u), model_->first_parameter(u), begin,
                                       shard.range(0, real));
    if (real < shard.count())
      device().kernels().fill({.out = shard.range(real, shard.count() - real)});
  }

  std::optional<std::size_t> lender_of(const Unit& unit) const {
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      if (model_->units[u].get() == unit.lender()) return u;
    return {};
  }

  /// What this rank's shards hold of the model.
  ParameterMap shard_map() const {
    std::vector<ModelPiece> pieces;
    for (std::size_t u = 0; u < shards_.size(); ++u) {
      const std::int64_t begin = communicator_->rank() * shards_[u].count;
      const std::int64_t left = unit(u).layout().count() - begin;
      if (left > 0)
        pieces.push_back({shards_[u].begin, model_->first_parameter(u) + begin,
                          std::min(left, shards_[u].count)});
    }
    return parameter_map(*model_, pieces);
  }

  void launch_gather(std::size_t u) {
    if (gathered_.contains(u)) return;
    Gathered& entry = gathered_[u];
    entry.whole = device().tensor({shards_[u].count * ranks()}, MemoryKind::communication, dtype());
    entry.work = communicator_->all_gather(shard_of(parameters_, u), entry.whole);
  }

  /// The unit's parameters without the padding; waits for them.
  Tensor gathered(std::size_t u) {
    launch_gather(u);
    Gathered& entry = gathered_[u];
    if (entry.work)
      wait_exposed(context().timeline, "all-gather " + unit(u).name(), std::move(entry.work));
    return entry.whole.range(0, unit(u).layout().count());
  }

  /// The same, with the unit that this one reads as well at hand.
  Tensor gathered_with_lender(std::size_t u) {
    if (const auto lender = lenders_[u]) unit(*lender).bind(gathered(*lender), {});
    return gathered(u);
  }

  void free(std::size_t u) {
    unit(u).bind({}, {});
    gathered_.erase(u);
  }

  Tensor whole_of(std::size_t u) const {
    return whole_.range(shards_[u].begin * ranks(), shards_[u].count * ranks());
  }

  /// Sends the unit's gradient to its shards: the first of a step into its place, a later one to
  /// its place in the whole gradient, to be added from there.
  void scatter(std::size_t u, bool first) {
    const std::int64_t count = shards_[u].count;
    const Tensor part =
        first ? shard_of(gradients_, u) : gradient_.range(communicator_->rank() * count, count);
    WorkPtr work = communicator_->reduce_scatter(gradient_, part);
    scattering_.push_back({u, first ? Tensor{} : part, gradient_, std::move(work)});
  }

  /// Adds the micro-batch's gradient to those before it; sends the sum after the last one.
  void scatter_in_the_end(std::size_t u, const Pass& pass) {
    const std::int64_t count = unit(u).layout().count();
    if (pass.micro_batch > 0) {
      const auto span = context().timeline.scope(Activity::compute, "add up " + unit(u).name());
      device().kernels().add({.in = gradient_.range(0, count), .out = whole_of(u).range(0, count)});
    }
    if (!pass.last()) return;
    gradient_ = whole_of(u);
    scatter(u, true);
  }

  /// Sums over the whole model come first.
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
    device().kernels().add({.in = first.part, .out = shard_of(gradients_, first.unit)});
  }

  bool prefetch_;
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::vector<Shard> shards_;
  std::vector<std::optional<std::size_t>> lenders_;  // by unit
  Tensor parameters_, gradients_;
  Tensor whole_;  // gradients of all units, where they wait for the last micro-batch
  std::unique_ptr<Optimizer> optimizer_;
  std::map<std::size_t, Gathered> gathered_;
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
