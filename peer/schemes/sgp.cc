#include "peer/schemes/sgp.h"

#include <algorithm>
#include <span>

#include "core/scheme/state.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::peer {
namespace {

class Sgp final : public LocalRule {
 public:
  Sgp(const RuleContext& context, const SgpOptions& options)
      : LocalRule(context), options_(options) {
    const int degree = out_degree(options.graph, context.worker, context.workers);
    kept_ = 1.0F / static_cast<float>(degree + 1);
  }

  bool sums() const override { return false; }
  std::vector<int> sources(int worker, std::int64_t done) const override {
    return sources_in(options_.graph, worker, context().workers, done);
  }
  bool gives(std::size_t, std::int64_t done) const override {
    return options_.overlap == 0 || (done < context().steps && done % options_.overlap == 0);
  }
  std::int64_t delay() const override { return options_.overlap; }
  std::int64_t message_size(const Fragment& fragment) const override { return fragment.count + 1; }
  bool measures(std::int64_t done) const override {
    return options_.distance.measures(done, context().steps);
  }

  void attach(const Tensor& values) override {
    const std::int64_t count = values.count();
    state_ = context().device.tensor({count + 1}, MemoryKind::optimizer);
    x_ = state_.range(0, count);
    weight_ = state_.range(count, 1);
    z_ = context().device.tensor({count}, MemoryKind::optimizer);
    kernels().copy({.in = values, .out = x_});
    kernels().copy({.in = values, .out = z_});
    kernels().fill({.out = weight_, .value = 1});
  }

  void visit_state(const RuleStateVisitor& visit) override {
    visit({"push_sum_x", x_, false, state_parameters});
    visit({"push_sum_weight", weight_});
    visit({"push_sum_z", z_, false, state_parameters});
  }

  /// The update from z to `values` is one of x, so z moves by the update divided by the weight.
  bool corrects() const override { return true; }
  void correct(const Tensor& values) override {
    kernels().blend({.in = values, .out = z_, .in_scale = 1, .out_scale = -1});
    kernels().add({.in = z_, .out = x_});
    divide(values);
  }

  void give(const Fragment&, const Tensor&, const Tensor& message) override {
    kernels().blend({.in = state_, .out = message, .in_scale = kept_});
    kernels().copy({.in = message, .out = state_});
  }
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    for (const Tensor& message : received.messages) kernels().add({.in = message, .out = state_});
    divide(values);
  }

  std::vector<SchemeFigure> figures() const override {
    if (!context().device.has_values()) return {};
    float weight = 0;
    context().device.read(weight_, std::as_writable_bytes(std::span(&weight, 1)));
    return {{"push-sum weight", "relative", weight}};
  }

 private:
  void divide(const Tensor& values) {
    kernels().divide({.in = x_, .by = weight_, .out = values});
    kernels().copy({.in = values, .out = z_});
  }

  SgpOptions options_;
  float kept_ = 1;             // the share of x and weight that stays, and that each target gets
  Tensor state_, x_, weight_;  // x and weight are parts of the state
  Tensor z_;                   // the values before the present update
};

double minimum_bytes(const SgpOptions& options, const StepShape& shape) {
  const double message = 4.0 * static_cast<double>(shape.parameters + 1);
  const auto period = static_cast<double>(std::max<std::int64_t>(1, options.overlap));
  return largest_out_degree(options.graph, shape.world) * message / period +
         distance_bytes(options.distance, shape);
}

}  // namespace

Fields fields_of(SgpOptions& options) {
  return with_distance(
      options.distance,
      {{"graph", &options.graph,
        "the workers of which a worker takes: ring (the one before and the one after), torus (in "
        "two dimensions), exponential (those 1, 2, 4, ... before), one_peer (one of these in each "
        "step, in turn), complete (all) or star (worker 0 of all, all of worker 0)"},
       {"overlap", &options.overlap,
        "steps that workers train on while messages move, which they send once in so many steps; "
        "0: after every update, without training on",
        Range::not_negative}});
}

std::unique_ptr<LocalRule> make_sgp_rule(const RuleContext& context, const SgpOptions& options) {
  return std::make_unique<Sgp>(context, options);
}

SchemeInfo sgp_info() {
  using Own = SgpOptions;
  auto r = local_scheme<Sgp>("sgp", "stochastic gradient push: gossip with push-sum weights",
                             "push", Own{});
  r.tried = {
      {"star", Own{.graph = Graph::star}},
      {"overlap", Own{.overlap = 1}},
      {"overlap_2_exponential", Own{.graph = Graph::exponential, .overlap = 2}},
      {"overlap_star_with_distance", Own{.graph = Graph::star,
                                         .overlap = 2,
                                         .distance = {.distance = true, .distance_every = 4}}}};
  r.identities = {{{"scheme.dpsgd.graph=one_peer", "scheme.dpsgd.overlap=false"}, "dpsgd"},
                  {{"scheme.sgp.graph=exponential", "scheme.dpsgd.graph=exponential",
                    "scheme.dpsgd.overlap=false"},
                   "dpsgd"},
                  {{"scheme.sgp.graph=complete", "scheme.local_sgd.sync_every=1"}, "local_sgd"}};
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return minimum_bytes(options.as<Own>(), shape);
  };
  return r;
}

}  // namespace ringside::peer
