#include "peer/schemes/ddp.h"

#include <optional>
#include <vector>

#include "core/scheme/replica.h"
#include "core/scheme/scalar_sum.h"
#include "core/scheme/whole_update.h"
#include "peer/schemes/compressed.h"
#include "peer/schemes/reducer.h"
#include "peer/schemes/sums.h"

namespace ringside::peer {
namespace {

/// If the gradients of every micro-batch are reduced, a bucket's sum is added to the total gradient
/// before the next micro-batch overwrites the bucket.
class Ddp : public SyncScheme {
 public:
  Ddp(const RankContext& context, const DdpOptions& options)
      : SyncScheme(context),
        options_(options),
        communicator_(context.communicator(all_workers(context, "ddp", options.algorithm))) {}

  void attach(Model& model) override {
    const RunPlan& plan = context().plan;
    Device& device = context().device;
    replica_.emplace(model, context());
    model_ = &model;
    const Tensor& gradients = replica_->gradients();
    const DType reduced = reduce_dtype(plan.train), summed = sum_dtype(plan.train);
    every_ = plan.train.reduce == Reduce::every && plan.train.accumulation > 1 && plan.world > 1;
    total_ = every_ || summed != gradients.dtype()
                 ? device.tensor(gradients.shape(), MemoryKind::gradient, summed)
                 : gradients;
    update_.emplace(context(), model, *replica_, total_, plan.world);
    buckets_ = make_buckets(model, reduced, options_.bucket_mb * 1e6);
    if (compresses(options_.compression))
      compressed_.emplace(context(), *communicator_, model, buckets_, options_.compression);
    reducer_.emplace(device, context().timeline, buckets_, gradients, total_,
                     compressed_
                         ? compressed_->operation(gradients.dtype(), options_.overlap)
                         : all_reduce_by(*communicator_, buckets_, reduced, options_.overlap));
  }

  void before_forward(std::size_t unit, const Pass&) override { update_->finish(unit); }

  void before_backward(std::size_t unit, const Pass& pass) override {
    if (every_) {
      reducer_->finalize_of_unit(unit);
      // The unit's part of its lender's gradient overwrites that of the micro-batch before.
      if (const auto lender = model_->lender_of(unit)) reducer_->finalize_of_unit(*lender);
    }
    replica_->before_backward(unit, every_ ? Pass{} : pass);
  }

  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, every_ ? Pass{} : pass);
    const std::int64_t micro_batch = every_ ? pass.micro_batch : 0;
    if (every_ || pass.last()) reducer_->add(unit, micro_batch);
    if (pass.last() && update_->optimizer().expects()) expect_arrived(micro_batch, {pass.step});
  }

  bool step(const StepInfo& info) override {
    if (update_->optimizer().rounds() > 0) {
      reducer_->finalize_all();
      return update_->step(info);
    }
    for (std::size_t b = 0; b < reducer_->buckets().size(); ++b) {
      const Bucket& bucket = reducer_->buckets()[b];
      reducer_->finalize(b);
      const auto span = context().timeline.scope(Activity::optimizer, "optimizer " + bucket.name);
      update_->optimizer().update(update_->range(bucket.begin, bucket.count), info);
    }
    return true;
  }

  void drain() override { update_->finish_all(); }

  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values, &context().timeline);
  }

  void visit_parameters(const ParameterVisitor& visit) override {
    drain();
    update_->visit(visit);
  }

  void visit_state(const StateVisitor& visit) override {
    update_->visit_state(communicator_->rank(), communicator_->size(), visit);
    if (compressed_) compressed_->visit_state(visit);
  }
  void restored(std::int64_t skipped) override { update_->restored(skipped); }

  Traffic traffic() const override { return communicator_->traffic(); }

  std::vector<SchemeFigure> figures() const override {
    if (options_.algorithm != Algorithm::automatic || communicator_->rank() != 0) return {};
    std::vector<std::int64_t> counts;
    for (const Bucket& bucket : reducer_->buckets()) counts.push_back(bucket.count);
    return figures_of_choice(context().plan, Collective::Kind::all_reduce, counts,
                             some_workers(context().plan.world), "buckets");
  }

 private:
  /// Tells the optimizer of the buckets whose sums have arrived.
  void expect_arrived(std::int64_t micro_batch, const StepInfo& info) {
    for (std::size_t b = 0; b < reducer_->buckets().size(); ++b) {
      const Bucket& bucket = reducer_->buckets()[b];
      if (reducer_->finalize_if_ready(b, micro_batch))
        update_->optimizer().expect(update_->range(bucket.begin, bucket.count), info);
    }
  }

  DdpOptions options_;
  std::unique_ptr<Communicator> communicator_;
  const Model* model_ = nullptr;
  std::optional<Replica> replica_;
  bool every_ = false;  // several micro-batches, and the gradient of each is reduced
  Tensor total_;        // the gradient that the optimizer gets
  std::optional<WholeUpdate> update_;
  std::vector<Bucket> buckets_;
  std::optional<CompressedSum> compressed_;
  std::optional<Reducer> reducer_;
};

}  // namespace

std::unique_ptr<SyncScheme> make_ddp(const RankContext& context, const DdpOptions& options) {
  check(options, context.plan);
  return std::make_unique<Ddp>(context, options);
}

}  // namespace ringside::peer
