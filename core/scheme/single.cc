#include "core/scheme/single.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/device/convert.h"
#include "core/plan/same_run.h"
#include "core/scheme/plain_scheme.h"
#include "core/scheme/replica.h"

namespace ringside {
namespace {

/// Micro-batch m belongs to replica m / k, where each replica has k micro-batches. The member
/// `replica_` adds up the gradients of one replica after the other; take_gradients() gets each
/// replica's sum.
class OneAfterTheOther : public SyncScheme {
 public:
  OneAfterTheOther(const RankContext& context, std::int64_t replicas)
      : SyncScheme(context), replicas_(replicas) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    if (replicas_ < 1 || plan.train.accumulation % replicas_ != 0)
      throw Error("scheme single: {} micro-batches cannot be divided evenly among {} replicas",
                  plan.train.accumulation, replicas_);
    model_ = &model;
    replica_.emplace(model, context());
    total_ = takes_gradients() ? new_gradients(sum_dtype(plan.train)) : replica_->gradients();
    update_.emplace(context(), model, *replica_, total_, workers());
  }

  void before_forward(std::size_t unit, const Pass&) override { update_->finish(unit); }

  void before_backward(std::size_t unit, const Pass& pass) override {
    if (pass.ranks == 1) return replica_->before_backward(unit, within_replica(pass));
    model_->units[unit]->bind(replica_->parameters(unit), of_ranks(unit, pass));
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    if (pass.ranks > 1) return take_gradients_of_ranks(unit, pass);
    const Pass within = within_replica(pass);
    replica_->after_backward(unit, within);
    if (!takes_gradients() || !within.last()) return;
    const auto span =
        context().timeline.scope(Activity::compute, "add up " + model_->units[unit]->name());
    take_gradients(pass.micro_batch / within.micro_batches, model_->first_parameter(unit),
                   replica_->gradients(unit));
  }

  bool step(const StepInfo& info) override { return update_->step(info); }

  void drain() override { update_->finish_all(); }

  void sum(std::span<double>) override {}

  void visit_parameters(const ParameterVisitor& visit) override { update_->visit(visit); }
  void visit_state(const StateVisitor& visit) override { update_->visit_state(0, 1, visit); }
  void restored(std::int64_t skipped) override { update_->restored(skipped); }

 protected:
  /// How many workers' work this rank does.
  virtual std::int64_t workers() const { return replicas_; }
  /// Gets the gradients of one unit, whose first parameter is `begin`, summed over the
  /// micro-batches of a replica.
  virtual void take_gradients(std::int64_t replica, std::int64_t begin,
                              const Tensor& gradients) = 0;
  /// Whether take_gradients() is called; otherwise total() is the gradient of the one replica.
  virtual bool takes_gradients() const {
    return replicas_ > 1 || converts_gradients(context().plan.train);
  }

  Tensor new_gradients(DType dtype) const {
    return context().device.tensor(replica_->gradients().shape(), MemoryKind::gradient, dtype);
  }
  /// The dtype in which gradients of several replicas are added up.
  DType reduced() const { return reduce_dtype(context().plan.train); }
  const Kernels& kernels() const { return context().device.kernels(); }
  std::int64_t replicas() const { return replicas_; }
  const Model& model() const { return *model_; }
  /// The gradients of a step, added up, in sum_dtype().
  const Tensor& total() const { return total_; }
  WholeUpdate& update() { return *update_; }
  /// Says that the unit's part of total() is complete.
  void expect_update(std::size_t unit, const StepInfo& info) {
    update_->optimizer().expect(update_->range_of(unit), info);
  }

 private:
  /// Where the gradients of several ranks' micro-batches go, each of which is a replica.
  Tensor of_ranks(std::size_t unit, const Pass& pass) {
    if (!of_ranks_) {
      std::int64_t largest = 0;
      for (const auto& one : model_->units) largest = std::max(largest, one->layout().count());
      of_ranks_ = context().device.tensor({pass.ranks * largest}, MemoryKind::gradient,
                                          replica_->gradients().dtype());
    }
    return of_ranks_.range(0, pass.ranks * model_->units[unit]->layout().count());
  }
  void take_gradients_of_ranks(std::size_t unit, const Pass& pass) {
    const auto span =
        context().timeline.scope(Activity::compute, "add up " + model_->units[unit]->name());
    const std::int64_t count = model_->units[unit]->layout().count();
    for (std::int64_t r = 0; r < pass.ranks; ++r)
      take_gradients(pass.micro_batch + r, model_->first_parameter(unit),
                     of_ranks_.range(r * count, count));
    model_->units[unit]->bind(replica_->parameters(unit), {});
  }
  Pass within_replica(Pass pass) const {
    pass.micro_batches /= replicas_;
    pass.micro_batch %= pass.micro_batches;
    return pass;
  }

  std::int64_t replicas_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  Tensor of_ranks_;  // gradients of one unit
  Tensor total_;
  std::optional<WholeUpdate> update_;
};

class Single final : public OneAfterTheOther {
 public:
  using OneAfterTheOther::OneAfterTheOther;

  void attach(Model& model) override {
    OneAfterTheOther::attach(model);
    sums_ = total().dtype() == reduced() ? total() : new_gradients(reduced());
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    OneAfterTheOther::after_backward(unit, pass);
    if (pass.last() && sums_.dtype() == total().dtype()) expect_update(unit, {pass.step});
  }

  bool step(const StepInfo& info) override {
    if (sums_.dtype() != total().dtype()) kernels().cast({.in = sums_, .out = total()});
    return OneAfterTheOther::step(info);
  }

 private:
  void take_gradients(std::int64_t replica, std::int64_t begin, const Tensor& gradients) override {
    const Tensor sum = sums_.range(begin, gradients.count());
    if (replica == 0)
      kernels().cast({.in = gradients, .out = sum});
    else
      add_converted(context().device, gradients, sum);
  }

  Tensor sums_;  // over replicas, in reduced()
};

/// Keeps the gradients of all workers. A replica is a worker, or one micro-batch of a worker.
class GradientsOfAll : public OneAfterTheOther {
 public:
  explicit GradientsOfAll(const RankContext& context)
      : OneAfterTheOther(context, context.plan.sums.each_micro_batch
                                      ? context.plan.train.accumulation
                                      : context.plan.defines) {}

  void attach(Model& model) override {
    OneAfterTheOther::attach(model);
    for (std::int64_t r = 0; r < replicas(); ++r) gradients_.push_back(new_gradients(reduced()));
  }

 protected:
  /// Of every replica.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  std::int64_t workers() const override { return context().plan.defines; }

 private:
  bool takes_gradients() const override { return true; }

  void take_gradients(std::int64_t replica, std::int64_t begin, const Tensor& gradients) override {
    kernels().cast(
        {.in = gradients,
         .out = gradients_[static_cast<std::size_t>(replica)].range(begin, gradients.count())});
  }

  std::vector<Tensor> gradients_;
};

class SumOfAll final : public GradientsOfAll {
 public:
  SumOfAll(const RankContext& context, std::function<SumOfWorkers(const Model&)> make)
      : GradientsOfAll(context), make_(std::move(make)) {}

  void attach(Model& model) override {
    GradientsOfAll::attach(model);
    sum_ = make_(model);
  }

  bool step(const StepInfo& info) override {
    const std::int64_t each = replicas() / workers();
    for (std::int64_t m = 0; m < each; ++m) {
      std::vector<Tensor> of_workers;
      for (std::int64_t w = 0; w < workers(); ++w)
        of_workers.push_back(gradients()[static_cast<std::size_t>(w * each + m)]);
      sum_(of_workers, total(), m == 0);
    }
    return OneAfterTheOther::step(info);
  }

 private:
  std::function<SumOfWorkers(const Model&)> make_;
  SumOfWorkers sum_;
};

class StepOfAll final : public GradientsOfAll {
 public:
  StepOfAll(const RankContext& context,
            std::function<StepOfWorkers(const Model&, WholeUpdate&)> make)
      : GradientsOfAll(context), make_(std::move(make)) {}

  void attach(Model& model) override {
    GradientsOfAll::attach(model);
    step_ = make_(model, update());
  }

  bool step(const StepInfo& info) override { return step_(gradients(), info); }

 private:
  std::function<StepOfWorkers(const Model&, WholeUpdate&)> make_;
  StepOfWorkers step_;
};

/// Makes one of the sums of a model, and writes or adds it to its part of `total`.
void add_up(Device& device, const Sum& sum, std::span<const Tensor> gradients, const Tensor& total,
            bool first) {
  if (sum.count == 0) return;
  const auto of_worker = [&](int worker) {
    return gradients[static_cast<std::size_t>(worker)].range(sum.begin, sum.count);
  };
  int result = 0;
  for (const Addition& one : sum.additions) {
    device.kernels().add({.in = of_worker(one.from), .out = of_worker(one.into)});
    result = one.into;
  }
  const Tensor out = total.range(sum.begin, sum.count);
  if (first)
    device.kernels().cast({.in = of_worker(result), .out = out});
  else
    add_converted(device, of_worker(result), out);
}

}  // namespace

Fields fields_of(SingleOptions& options) {
  return {{"replicas", &options.replicas,
           "add up gradients as this many ranks would: first the micro-batches of each rank, then "
           "the sums of the ranks",
           Range::positive}};
}

std::unique_ptr<SyncScheme> make_single(const RankContext& context, const SingleOptions& options) {
  return std::make_unique<Single>(context, options.replicas);
}

std::unique_ptr<SyncScheme> define_sum(const RankContext& context,
                                       std::function<SumOfWorkers(const Model& model)> make) {
  return std::make_unique<SumOfAll>(context, std::move(make));
}

std::unique_ptr<SyncScheme> define_step(
    const RankContext& context,
    std::function<StepOfWorkers(const Model& model, WholeUpdate& update)> make) {
  return std::make_unique<StepOfAll>(context, std::move(make));
}

std::unique_ptr<SyncScheme> define_in_order(const RankContext& context, SumsOfModel sums) {
  Device& device = context.device;
  return define_sum(context, [&device, sums = std::move(sums)](const Model& model) {
    return [&device, all = sums(model)](std::span<const Tensor> gradients, const Tensor& total,
                                        bool first) {
      for (const Sum& sum : all) add_up(device, sum, gradients, total, first);
    };
  });
}

SchemeInfo single_info() {
  auto r =
      plain_scheme(reference_scheme, "one rank, no communication: the reference", SingleOptions{});
  r.max_world = 1;
  r.topology = SchemeTopology::none;
  r.offloads = Offload::optimizer;
  r.converts_gradients = true;
  r.resumes = resumes_the_same_run(r.promise);
  r.make = with_own<SingleOptions>(make_single);
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  r.divides = [](const Options&, int) { return StateDivision{}; };
  return r;
}

}  // namespace ringside
