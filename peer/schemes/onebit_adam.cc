#include "peer/schemes/onebit_adam.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/compress/compressed_bucket.h"
#include "core/scheme/parameter_map.h"
#include "core/scheme/plain_scheme.h"
#include "core/scheme/replica.h"
#include "core/scheme/scalar_sum.h"
#include "core/scheme/single.h"
#include "core/scheme/whole_update.h"
#include "peer/schemes/compressed.h"
#include "peer/schemes/exposed.h"
#include "peer/schemes/onebit_momentum.h"
#include "peer/schemes/reducer.h"

namespace ringside::peer {
namespace {

constexpr std::string_view its_optimizer = "adamw";

std::vector<Piece> all_pieces(const Model& model) {
  return pieces_of(model, 0, model.parameter_count());
}

/// The update after the warm-up, of a rank whose AdamW is that of `update`.
FrozenAdam after_warm_up(const RankContext& context, const Model& model, const WholeUpdate& update,
                         std::int64_t workers) {
  return FrozenAdam(context.device, context.plan.optimizer, {context.plan.train.steps, workers},
                    parameter_map(model), update.optimizer().state());
}
/// The same where the warm-up ends: it freezes the second moment.
FrozenAdam frozen(const RankContext& context, const Model& model, const WholeUpdate& update,
                  std::int64_t workers, std::int64_t steps) {
  FrozenAdam out = after_warm_up(context, model, update, workers);
  out.freeze(steps);
  return out;
}

class OnebitAdam final : public SyncScheme {
 public:
  OnebitAdam(const RankContext& context, const OnebitAdamOptions& options)
      : SyncScheme(context),
        options_(options),
        communicator_(context.communicator(all_workers(context, "onebit_adam"))) {}

  void attach(Model& model) override {
    model_ = &model;
    replica_.emplace(model, context());
    const Tensor& gradients = replica_->gradients();
    update_.emplace(context(), model, *replica_, gradients, context().plan.world);
    buckets_ = make_buckets(model, gradients.dtype(), options_.bucket_mb * 1e6);
    reducer_.emplace(context().device, context().timeline, buckets_, gradients, gradients,
                     all_reduce_by(*communicator_, buckets_, gradients.dtype(), true));
    if (options_.freeze_step < context().plan.train.steps) make_momentum();
  }

  void before_backward(std::size_t unit, const Pass& pass) override {
    replica_->before_backward(unit, pass);
  }
  void after_backward(std::size_t unit, const Pass& pass) override {
    replica_->after_backward(unit, pass);
    if (pass.last() && warms_up(pass.step)) reducer_->add(unit, 0);
  }

  bool step(const StepInfo& info) override {
    if (warms_up(info.step)) {
      reducer_->finalize_all();
      return update_->step(info);
    }
    if (!frozen_)
      frozen_.emplace(frozen(context(), *model_, *update_, communicator_->size(), info.step));
    agree();
    const auto span = context().timeline.scope(Activity::optimizer, "optimizer");
    frozen_->update(replica_->parameters(), info);
    return true;
  }

  void sum(std::span<double> values) override {
    sum_over_ranks(context().device, *communicator_, values, &context().timeline);
  }
  void visit_parameters(const ParameterVisitor& visit) override { update_->visit(visit); }
  /// Once the second moment is frozen it is no longer AdamW's, and has another name.
  void visit_state(const StateVisitor& visit) override {
    const int rank = communicator_->rank(), ranks = communicator_->size();
    std::uint32_t is_frozen = frozen_ ? 1 : 0;
    visit_number(context().device, {.name = "is_frozen", .holder = rank, .holders = ranks},
                 is_frozen, 1, visit);
    if (is_frozen > 0 && !frozen_) {
      frozen_.emplace(after_warm_up(context(), *model_, *update_, ranks));
      if (!momentum_) make_momentum();
    }
    update_->visit_state(rank, ranks, [&](const StateRange& range) {
      StateRange own = range;
      if (frozen_ && own.name == second_moment) own.name = "frozen_second_moment";
      visit(own);
    });
    if (frozen_) momentum_->visit_state(visit);
  }
  void restored(std::int64_t skipped) override { update_->restored(skipped); }
  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  /// What is frozen stays so, in a run that goes on with a later freeze_step too.
  bool warms_up(std::int64_t step) const { return !frozen_ && step < options_.freeze_step; }
  void make_momentum() {
    momentum_.emplace(context().device, all_pieces(*model_), communicator_->rank(),
                      communicator_->size());
  }

  /// Makes the common momentum of this step.
  void agree() {
    const std::int64_t bytes = momentum_->chunk_bytes(), ranks = communicator_->size();
    const Tensor codes = new_codes(ranks * bytes), received = new_codes(ranks * bytes);
    const Tensor own = received.range(communicator_->rank() * bytes, bytes);
    encode("momenta", [&] {
      momentum_->give(frozen_->momentum(), replica_->gradients(),
                      static_cast<float>(context().plan.optimizer.beta1), codes);
    });
    exchange("all-to-all momenta", [&] { return communicator_->all_to_all(codes, received); });
    const Tensor answer = new_codes(bytes);
    encode("momenta of a chunk", [&] { momentum_->combine(received, answer); });
    context().device.kernels().copy({.in = answer, .out = own});
    exchange("all-gather momenta", [&] { return communicator_->all_gather(own, received); });
    const auto span = context().timeline.scope(Activity::encoding, "decode momenta");
    momentum_->take(received, frozen_->momentum());
  }

  Tensor new_codes(std::int64_t bytes) const {
    return context().device.tensor({bytes}, MemoryKind::communication, DType::u8);
  }
  template <class Encode>
  void encode(const char* what, const Encode& encode) {
    const auto span = context().timeline.scope(Activity::encoding, std::string("encode ") + what);
    encode();
  }
  template <class Begin>
  void exchange(const char* name, const Begin& begin) {
    communicator_->name_next(name);
    wait_exposed(context().timeline, name, begin_traced(context().timeline, name, begin));
  }

  OnebitAdamOptions options_;
  std::unique_ptr<Communicator> communicator_;
  const Model* model_ = nullptr;
  std::optional<Replica> replica_;
  std::optional<WholeUpdate> update_;
  std::vector<Bucket> buckets_;
  std::optional<Reducer> reducer_;
  std::optional<OnebitMomentum> momentum_;
  std::optional<FrozenAdam> frozen_;  // after the warm-up
};

/// The workers of a definition.
struct DefinedWorkers {
  std::vector<OnebitMomentum> momenta;
  std::optional<FrozenAdam> frozen;
};

/// What agree() of all workers does.
void agree_all(const RankContext& context, DefinedWorkers& all, std::span<const Tensor> gradients) {
  Device& device = context.device;
  const auto workers = static_cast<std::int64_t>(all.momenta.size());
  const std::int64_t bytes = all.momenta[0].chunk_bytes();
  const auto new_codes = [&] {
    return device.tensor({workers * bytes}, MemoryKind::workspace, DType::u8);
  };
  std::vector<Tensor> given;
  for (std::size_t w = 0; w < gradients.size(); ++w) {
    given.push_back(new_codes());
    all.momenta[w].give(all.frozen->momentum(), gradients[w],
                        static_cast<float>(context.plan.optimizer.beta1), given.back());
  }
  const Tensor answers = new_codes();
  for (std::int64_t server = 0; server < workers; ++server) {
    const Tensor received = new_codes();
    for (std::int64_t w = 0; w < workers; ++w)
      device.kernels().copy({.in = given[static_cast<std::size_t>(w)].range(server * bytes, bytes),
                             .out = received.range(w * bytes, bytes)});
    all.momenta[static_cast<std::size_t>(server)].combine(received,
                                                          answers.range(server * bytes, bytes));
  }
  all.momenta[0].take(answers, all.frozen->momentum());
}

void check(const OnebitAdamOptions&, const RunPlan& plan) {
  if (plan.train.precision == Precision::fp16)
    throw Error(
        "scheme onebit_adam: workers would remember errors in the units of a loss scale that "
        "changes; set train.precision = \"bf16\"");
  refuse_skipped_steps(plan, "scheme onebit_adam", "they would remember what is not finite");
  if (plan.train.reduce == Reduce::every)
    throw Error(
        "scheme onebit_adam: workers exchange momenta once a step; leave train.reduce = 'every' "
        "out");
}

/// Of N workers with n elements: 2 (N-1)/N of the gradient in the warm-up, and of its signs later.
double minimum_bytes(const OnebitAdamOptions& options, const StepShape& shape) {
  const double ranks = shape.world;
  double code = 0;
  for (const Shape& tensor : shape.tensors) code += 4 + static_cast<double>(tensor.count()) / 8;
  const auto measured = static_cast<double>(shape.steps - shape.first_step);
  const auto warming = static_cast<double>(
      std::clamp(options.freeze_step, shape.first_step, shape.steps) - shape.first_step);
  const double share = measured > 0 ? warming / measured : 1;
  return 2 * (ranks - 1) / ranks *
         (share * static_cast<double>(shape.gradient_bytes) + (1 - share) * code);
}

}  // namespace

Fields fields_of(OnebitAdamOptions& options) {
  return {{"freeze_step", &options.freeze_step,
           "steps of AdamW with all-reduced gradients, after which its second moment is frozen and "
           "only signs of momenta are sent",
           Range::positive},
          {"bucket_mb", &options.bucket_mb,
           "in these steps gradients are all-reduced in buckets of about this size (MB)",
           Range::positive}};
}

std::unique_ptr<SyncScheme> make_onebit_adam(const RankContext& context,
                                             const OnebitAdamOptions& options) {
  return std::make_unique<OnebitAdam>(context, options);
}

std::unique_ptr<SyncScheme> define_onebit_adam(const RankContext& context,
                                               const OnebitAdamOptions& options) {
  return define_step(context, [context, options](const Model& model, WholeUpdate& update) {
    const auto all = std::make_shared<DefinedWorkers>();
    const int workers = context.plan.defines;
    for (int w = 0; w < workers; ++w)
      all->momenta.emplace_back(context.device, all_pieces(model), w, workers);
    return [context, options, &model, &update, workers, all](std::span<const Tensor> gradients,
                                                             const StepInfo& info) {
      const ParameterRange whole = update.range(0, model.parameter_count());
      if (info.step < options.freeze_step) {
        const Tensor sum = added_up(context.device, {gradients.begin(), gradients.end()});
        context.device.kernels().copy({.in = sum, .out = whole.gradients});
        return update.step(info);
      }
      if (!all->frozen) all->frozen.emplace(frozen(context, model, update, workers, info.step));
      agree_all(context, *all, gradients);
      all->frozen->update(whole.parameters, info);
      return true;
    };
  });
}

SchemeInfo onebit_adam_info() {
  using Own = OnebitAdamOptions;
  auto r = plain_scheme("onebit_adam", "AdamW, then a frozen second moment and momenta in one bit",
                        Own{});
  r.optimizer = its_optimizer;
  r.needs_whole_model = [](const Options& options, const RunPlan& plan) {
    const std::int64_t freeze = options.as<Own>().freeze_step;
    return freeze < plan.train.steps ? fmt::format("scheme.onebit_adam.freeze_step = {}", freeze)
                                     : "";
  };
  r.tried = {{"from_step_two", Own{.freeze_step = 2, .bucket_mb = 1e-3}},
             {"from_step_three", Own{.freeze_step = 3}}};
  r.identities = {{{"scheme.onebit_adam.freeze_step=1000"}, "single", true},
                  {{"scheme.onebit_adam.freeze_step=1000"}, "ddp", true}};
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.check = with_own<Own>(check);
  r.resumes = [](const Options&) { return true; };
  r.make = with_own<Own>(make_onebit_adam);
  r.define = with_own<Own>(define_onebit_adam);
  r.minimum_bytes = with_own<Own>(minimum_bytes);
  return r;
}

}  // namespace ringside::peer
