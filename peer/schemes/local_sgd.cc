#include "peer/schemes/local_sgd.h"

#include <algorithm>
#include <optional>

#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/local_rule.h"

namespace ringside::peer {
namespace {

class LocalSgd final : public LocalRule {
 public:
  LocalSgd(const RuleContext& context, const LocalSgdOptions& options)
      : LocalRule(context), options_(options) {}

  bool gives(std::size_t, std::int64_t done) const override {
    return done <= options_.start_step || done % options_.sync_every == 0 ||
           done == context().steps;
  }

  void attach(const Tensor& values) override {
    const std::int64_t averagings = std::min(options_.start_step, context().steps) +
                                    (context().steps - 1) / options_.sync_every + 1;
    if (options_.distance) distance_.emplace(context().device, values.count(), averagings);
  }

  void give(const Fragment&, const Tensor& values, const Tensor& message) override {
    kernels().copy({.in = values, .out = message});
  }

  /// The replica becomes the mean of all replicas.
  void take(const Fragment&, const Received& received, const Tensor& values) override {
    const Tensor& sum = received.messages[0];
    if (distance_) distance_->measure(values, sum, share());
    kernels().blend({.in = sum, .out = values, .in_scale = share()});
  }

  std::vector<SchemeFigure> figures() const override {
    return distance_ ? distance_->figures() : std::vector<SchemeFigure>();
  }

 private:
  LocalSgdOptions options_;
  std::optional<ConsensusDistance> distance_;
};

}  // namespace

Fields fields_of(LocalSgdOptions& options) {
  return {{"sync_every", &options.sync_every, "number of steps from one averaging to the next",
           Range::positive},
          {"start_step", &options.start_step,
           "until so many steps are done, replicas are averaged after every step (post-local SGD)",
           Range::not_negative},
          {"distance", &options.distance, "also measure how far replicas are from their mean"}};
}

SchemeInfo local_sgd_info() {
  using Own = LocalSgdOptions;
  auto r = local_scheme<LocalSgd>(
      "local_sgd", "local SGD: peers average their replicas every few steps", "average", Own{});
  r.former_name = "averaging";
  r.tried = {{"every_step", Own{.sync_every = 1}},
             {"with_distance", Own{.distance = true}},
             {"post_local", Own{.start_step = 2}}};
  r.identities = {{{"scheme.local_sgd.sync_every=1", "optimizer.kind=sgd"}, "single"}};
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return sum_bytes(shape.world, shape.parameters, options.as<Own>().sync_every);
  };
  return r;
}

}  // namespace ringside::peer
