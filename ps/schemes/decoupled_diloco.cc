#include "ps/schemes/decoupled_diloco.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "ps/protocol/merges.h"
#include "ps/schemes/server_scheme.h"

namespace ringside::ps {
namespace {

int quorum_of(const DecoupledDilocoOptions& options, int workers) {
  return options.quorum > 0 ? static_cast<int>(std::min<std::int64_t>(options.quorum, workers))
                            : workers / 2 + 1;
}

/// The weight of a push of so many steps. Workers have `samples` each in a step.
double weight_of(const DecoupledDilocoOptions& options, std::int64_t samples, std::int64_t steps) {
  return options.token_weights ? static_cast<double>(samples * steps) : 1;
}

class Quorum final : public LocalAsp {
 public:
  Quorum(int quorum, double grace_s) : quorum_(quorum), grace_s_(grace_s) {}
  int gradients(int) const override { return quorum_; }
  std::optional<double> grace_s() const override { return grace_s_; }

 private:
  int quorum_;
  double grace_s_;
};

RankRecord serve_decoupled_diloco(const RankContext& context, const DecoupledDilocoOptions& options,
                                  Model& model, const Loader&) {
  return serve_outer(context, options.servers, model, [&](std::uint64_t token) {
    ServerConfig config = outer_server_config(context, token, options.outer);
    config.policy =
        make_quorum_policy(quorum_of(options, context.plan.world), 1e-3 * options.grace_ms);
    return config;
  });
}

std::unique_ptr<SyncScheme> make_decoupled_diloco(const RankContext& context,
                                                  const DecoupledDilocoOptions& options) {
  const std::int64_t samples = context.plan.train.global_batch / context.plan.world;
  return make_outer_worker(
      context, options.outer, options.servers,
      [options, samples](int, std::int64_t steps) { return weight_of(options, samples, steps); });
}

class DecoupledDilocoReplay final : public OuterReplay {
 public:
  DecoupledDilocoReplay(const RankContext& context, const DecoupledDilocoOptions& options)
      : OuterReplay(context, options.outer), options_(options), ranges_(ranges()) {}

  void attach(Model& model) override {
    OuterReplay::attach(model);
    optimizer_ = make_optimizer(outer_sgd(options_.outer.outer_lr, options_.outer.outer_momentum),
                                {context().plan.train.steps, own_replicas()}, context().device,
                                centre(), parameter_map(model));
    sum_ = initial_centre(MemoryKind::workspace);
  }

 private:
  struct Range {
    std::vector<float> pushed{};  // by worker: the weight of its latest push
    float weights = 0;            // of what the next merge takes
    std::int64_t version = 0;
  };

  void push(std::size_t range, const RangeEvent& event) override {
    const std::int64_t samples = context().plan.train.global_batch / own_replicas();
    ranges_[range].pushed.resize(static_cast<std::size_t>(own_replicas()));
    ranges_[range].pushed[static_cast<std::size_t>(event.worker)] =
        static_cast<float>(weight_of(options_, samples, event.steps));
  }

  void take(std::size_t range, int worker) override {
    Range& of = ranges_[range];
    const float weight = of.pushed[static_cast<std::size_t>(worker)];
    kernels().blend({.in = difference(range, worker),
                     .out = of_range(range, sum_),
                     .in_scale = weight,
                     .out_scale = of.weights > 0 ? 1.0F : 0.0F});
    of.weights += weight;
  }

  void merge(std::size_t range) override {
    Range& of = ranges_[range];
    optimizer_->update({first_of(range), centre(range), of_range(range, sum_)},
                       {.step = of.version++, .loss_scale = std::exchange(of.weights, 0)});
  }

  DecoupledDilocoOptions options_;
  std::unique_ptr<Optimizer> optimizer_;
  Tensor sum_;
  std::vector<Range> ranges_;
};

std::unique_ptr<SyncScheme> define_decoupled_diloco(const RankContext& context,
                                                    const DecoupledDilocoOptions& options) {
  return std::make_unique<DecoupledDilocoReplay>(context, options);
}

double decoupled_diloco_minimum_bytes(const StepShape& shape,
                                      const DecoupledDilocoOptions& options) {
  return exchange_bytes(shape, options.servers, shape.world, options.outer.sync_every);
}

int expendable_of_quorum(const DecoupledDilocoOptions& options, int world) {
  return world - quorum_of(options, world);
}

}  // namespace

void check(const DecoupledDilocoOptions& options, const RunPlan& plan) {
  check_local_servers(options.servers, plan);
  check_equal_shares(plan);
  check_outer(options.outer, plan);
  if (options.servers.servers > 1 && plan.world > Merges::most_workers)
    throw Error("scheme decoupled_diloco with several servers has at most {} workers, not {}",
                Merges::most_workers, plan.world);
}

Fields fields_of(DecoupledDilocoOptions& options) {
  return with_servers(
      options.servers,
      with_outer(options.outer,
                 {{"grace_ms", &options.grace_ms,
                   "milliseconds for which a merge waits for further workers, once a quorum has "
                   "pushed",
                   Range::not_negative},
                  {"quorum", &options.quorum,
                   "workers whose pushes a merge waits for, at most all; 0: more than half of them",
                   Range::not_negative},
                  {"token_weights", &options.token_weights,
                   "pushes count with their numbers of tokens; false: all alike"}}));
}

std::shared_ptr<const Policy> make_quorum_policy(int quorum, double grace_s) {
  return std::make_shared<Quorum>(quorum, grace_s);
}

SchemeInfo decoupled_diloco_info() {
  using Own = DecoupledDilocoOptions;
  auto r = server_scheme<Own>(
      "decoupled_diloco", "local steps, merged for a quorum of workers by an outer optimizer",
      make_decoupled_diloco, serve_decoupled_diloco, decoupled_diloco_minimum_bytes);
  r.promise = [](const Options&) { return Promise::replayed; };
  r.resumes = [](const Options&) { return true; };
  r.expendable = with_own<Own>(expendable_of_quorum);
  r.define = with_own<Own>(define_decoupled_diloco);
  r.tried = {
      {"of_one", Own{.outer = {.sync_every = 1}, .quorum = 1, .grace_ms = 0}},
      {"two_servers", Own{.outer = {.sync_every = 2}, .grace_ms = 1, .servers = {.servers = 2}}},
      {"by_speed", Own{.outer = {.sync_every = 4, .by_speed = true},
                       .quorum = 1,
                       .grace_ms = 2,
                       .servers = {.placement = Placement::colocated}}}};
  r.identities = {
      {{"scheme.decoupled_diloco.quorum=1000", "scheme.decoupled_diloco.equal_steps=true",
        "scheme.decoupled_diloco.sync_every=2", "scheme.diloco.sync_every=2"},
       "diloco"}};
  return r;
}

}  // namespace ringside::ps
