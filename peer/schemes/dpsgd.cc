#include "peer/schemes/dpsgd.h"

#include "core/base/error.h"
#include "peer/schemes/local_scheme.h"

namespace ringside::peer {
namespace {

class Dpsgd final : public LocalRule {
 public:
  Dpsgd(const RuleContext& context, const DpsgdOptions& options)
      : LocalRule(context), options_(options) {}

  bool sums() const override { return false; }
  std::vector<int> sources(int worker, std::int64_t done) const override {
    return sources_in(options_.graph, worker, context().workers, done);
  }
  bool gives(std::size_t, std::int64_t done) const override {
    return !options_.overlap || done < context().steps;  // else after the last step too
  }
  std::int64_t delay() const override { return options_.overlap ? 1 : 0; }
  bool measures(std::int64_t done) const override {
    return options_.distance.measures(done, context().steps);
  }

  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }
  /// Adds to the values what mixing changes in the message that was given: with overlap they are
  /// one update ahead of it.
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    const float weight = 1.0F / static_cast<float>(received.messages.size() + 1);
    kernels().blend({.in = received.given, .out = values, .in_scale = weight - 1, .out_scale = 1});
    for (const Tensor& message : received.messages)
      kernels().blend({.in = message, .out = values, .in_scale = weight, .out_scale = 1});
  }

 private:
  DpsgdOptions options_;
};

void check(const DpsgdOptions& options, const RunPlan&) {
  if (options.graph == Graph::star)
    throw Error(
        "scheme.dpsgd.graph = 'star': workers with unequal numbers of neighbours keep no average "
        "by "
        "means with equal weights; choose another graph, or scheme sgp");
}

double minimum_bytes(const DpsgdOptions& options, const StepShape& shape) {
  return 4.0 * static_cast<double>(shape.parameters) *
             largest_out_degree(options.graph, shape.world) +
         distance_bytes(options.distance, shape);
}

}  // namespace

Fields fields_of(DpsgdOptions& options) {
  return with_distance(
      options.distance,
      {{"graph", &options.graph,
        "the neighbours of a worker: ring (the one before and the one after), torus (in two "
        "dimensions), exponential (those 1, 2, 4, ... before), one_peer (one of these in each "
        "step, in turn) or complete (all); star is for sgp"},
       {"overlap", &options.overlap,
        "messages move while the next step is computed, as in the paper; false: replicas are "
        "mixed after the update"}});
}

std::unique_ptr<LocalRule> make_dpsgd_rule(const RuleContext& context,
                                           const DpsgdOptions& options) {
  return std::make_unique<Dpsgd>(context, options);
}

SchemeInfo dpsgd_info() {
  using Own = DpsgdOptions;
  auto r = local_scheme<Dpsgd>("dpsgd", "D-PSGD: replicas are mixed with those of neighbours",
                               "mix", Own{});
  r.tried = {{"torus", Own{.graph = Graph::torus}},
             {"exponential", Own{.graph = Graph::exponential}},
             {"one_peer", Own{.graph = Graph::one_peer}},
             {"complete_without_overlap", Own{.graph = Graph::complete, .overlap = false}},
             {"with_distance", Own{.distance = {.distance = true, .distance_every = 2}}}};
  r.identities = {{{"scheme.dpsgd.graph=complete", "scheme.dpsgd.overlap=false",
                    "scheme.local_sgd.sync_every=1"},
                   "local_sgd"}};
  r.check = with_own<Own>(check);
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return minimum_bytes(options.as<Own>(), shape);
  };
  return r;
}

}  // namespace ringside::peer
