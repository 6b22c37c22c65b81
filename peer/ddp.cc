#include "peer/ddp.h"

#include <optional>

#include "core/scheme/parameter_map.h"
#include "core/scheme/replica.h"
#include "core/scheme/worker_optimizer.h"
#include "peer/reducer.h"
#include "peer/scalar_sum.h"
#include "peer/sums.h"

namespace ringside::peer {
namespace {

/// If the gradients of every micro-batch are reduced, a bucket's sum is added to the total gradient
/// before the next micro-batch overwrites the bucket.
class Ddp : public SyncScheme {
 public:
  Ddp(const RankContext& context, const DdpOptions& options)
      : SyncScheme(context),
        bucket_bytes_(options.bucket_mb * 1e6),
        overlap_(options.overlap),
        automatic_(options.algorithm == Algorithm::automatic),
        communicator_(context.communicator(all_workers(context, "ddp", options.algorithm))) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    Device& device = context().device;
    model_ = &model;
    replica_.emplace(model, context());
    const Tensor& gradients = replica_->gradients();
    const DType reduced = reduce_dtype(plan.train), summed = sum_dtype(plan.train);
    every_ = plan.train.reduce == Reduce::every && plan.train.accumulation > 1 && plan.world > 1;
    total_ = every_ || summed != gradients.dtype()
                 ? device.tensor(gradients.shape(), MemoryKind::gradient, summed)
                 : gradients;
    optimizer_ =
        worker_optimizer(context(), plan.world, replica_->parameters(), parameter_map(model));
    reducer_.emplace(device, context().timeline, make_buckets(model, reduced, bucket_bytes_),
                     gradients, total_,
                     Reducer::Operation{"all-reduce", reduced,
                                        [this](const std::string& bucket, const Tensor& values) {
                                          communicator_->name_next(bucket);
                                          return communicator_->all_reduce(values);
                                        },
                                        overlap_});
  }

  void before_forward(std::size_t unit, const Pass&) override {
    optimizer_->finish(model_->first_parameter(unit), replica_->parameters(unit).count());
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    if (every_) reducer_->finalize_of_unit(unit);
    replica_->before_backward(unit, every_ ? Pass{} : pass);
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, every_ ? Pass{} : pass);
    const std::int64_t micro_batch = every_ ? pass.micro_batch : 0;
    if (every_ || pass.last()) reducer_->add(unit, micro_batch);
    if (pass.last() && optimizer_->expects()) expect_arrived(micro_batch, {pass.step});
  }

  bool step(const StepInfo& info) override {
    if (optimizer_->rounds() > 0) return step_at_once(info);
    for (std::size_t b = 0; b < reducer_->buckets().size(); ++b) {
      const Bucket& bucket = reducer_->buckets()[b];
      reducer_->finalize(b);
      const auto span = context().timeline.scope(Activity::optimizer, "optimizer " + bucket.name);
      optimizer_->update(range(b), info);
    }
    return true;
  }

  void drain() override { optimizer_->finish(0, total_.count()); }

  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    drain();
    if (communicator_->rank() != 0) return;
    for (std::size_t u = 0; u < model_->units.size(); ++u)
      visit(0, *model_->units[u], replica_->parameters(u));
  }

  Traffic traffic() const override { return communicator_->traffic(); }

  std::vector<SchemeFigure> figures() const override {
    if (!automatic_ || communicator_->rank() != 0) return {};
    std::vector<std::int64_t> counts;
    for (const Bucket& bucket : reducer_->buckets()) counts.push_back(bucket.count);
    return figures_of_choice(context().plan, Call::Kind::all_reduce, counts,
                             some_workers(context().plan.world), "buckets");
  }

 private:
  /// The bucket, as the optimizer sees it.
  ParameterRange range(std::size_t b) const {
    const Bucket& bucket = reducer_->buckets()[b];
    return {bucket.begin, replica_->parameters().range(bucket.begin, bucket.count),
            total_.range(bucket.begin, bucket.count)};
  }

  /// Tells the optimizer of the buckets whose sums have arrived.
  void expect_arrived(std::int64_t micro_batch, const StepInfo& info) {
    for (std::size_t b = 0; b < reducer_->buckets().size(); ++b)
      if (reducer_->finalize_if_ready(b, micro_batch)) optimizer_->expect(range(b), info);
  }

  /// Every rank has the gradients of all parameters, so the optimizer needs no sums over the ranks.
  bool step_at_once(const StepInfo& info) {
    reducer_->finalize_all();
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    const ParameterRange all{0, replica_->parameters(), total_};
    const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
    if (finite) optimizer_->update(all, info);
    return finite;
  }

  double bucket_bytes_;
  bool overlap_, automatic_;
  std::unique_ptr<Communicator> communicator_;
  Model* model_ = nullptr;
  std::optional<Replica> replica_;
  bool every_ = false;  // several micro-batches, and the gradient of each is reduced
  Tensor total_;        // the gradient that the optimizer gets
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Reducer> reducer_;
};

}  // namespace

std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options) {
  check(options, context.plan);
  return std::make_unique<Ddp>(context, options);
}

}  // namespace ringside::peer
