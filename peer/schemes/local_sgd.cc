#include "peer/schemes/local_sgd.h"

#include <optional>

#include "core/scheme/local_replicas.h"
#include "peer/schemes/consensus_distance.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {
namespace {

/// What the scheme and its definition have in common: the steps after which replicas are averaged,
/// and the distance of replicas from their mean.
class Averaged : public LocalReplicas {
 public:
  void attach(Model& model) override {
    LocalReplicas::attach(model);
    if (!options_.distance) return;
    const std::int64_t steps = context().plan.train.steps;
    const std::int64_t averagings = (steps + options_.sync_every - 1) / options_.sync_every;
    distance_.emplace(context().device, values(0).count(), averagings * own_replicas());
  }
  std::vector<SchemeFigure> figures() const override {
    return distance_ ? distance_->figures() : std::vector<SchemeFigure>();
  }

 protected:
  Averaged(const RankContext& context, const LocalSgdOptions& options, int replicas)
      : LocalReplicas(context, replicas), options_(options) {}

  void synchronise(const StepInfo& info) final {
    const std::int64_t done = info.step + 1;
    if (done % options_.sync_every == 0 || done == context().plan.train.steps) average();
  }
  virtual void average() = 0;
  const Kernels& kernels() const { return context().device.kernels(); }

  /// The replica becomes the mean of all replicas, which is `share` * `sum`.
  void take_mean(int replica, const Tensor& sum, float share) {
    if (distance_) distance_->measure(values(replica), sum, share);
    const auto span = context().timeline.scope(Activity::encoding, "take mean");
    kernels().blend({.in = sum, .out = values(replica), .in_scale = share});
    round_parameters(replica);
  }

 private:
  LocalSgdOptions options_;
  std::optional<ConsensusDistance> distance_;
};

class Averaging final : public Averaged {
 public:
  Averaging(const RankContext& context, const LocalSgdOptions& options)
      : Averaged(context, options, 1),
        communicator_(context.communicator(all_workers(context, "averaging"))) {}

  void attach(Model& model) override {
    Averaged::attach(model);
    sum_ = context().device.tensor(values(0).shape(), MemoryKind::communication);
  }
  Traffic traffic() const override { return communicator_->traffic(); }

 private:
  void average() override {
    {
      const auto span = context().timeline.scope(Activity::encoding, "copy replica");
      kernels().copy({.in = values(0), .out = sum_});
    }
    Timeline& timeline = context().timeline;
    wait_exposed(timeline, "average", begin_traced(timeline, "average", [this] {
                   return communicator_->all_reduce(sum_);
                 }));
    take_mean(0, sum_, 1.0F / static_cast<float>(context().plan.world));
  }

  std::unique_ptr<Communicator> communicator_;
  Tensor sum_;
};

class Definition final : public Averaged {
 public:
  Definition(const RankContext& context, const LocalSgdOptions& options)
      : Averaged(context, options, context.plan.defines) {}

 private:
  void average() override {
    const Tensor sum = context().device.tensor(values(0).shape(), MemoryKind::workspace);
    kernels().copy({.in = values(0), .out = sum});
    for (int r = 1; r < own_replicas(); ++r) kernels().add({.in = values(r), .out = sum});
    const float share = 1.0F / static_cast<float>(own_replicas());
    for (int r = 0; r < own_replicas(); ++r) take_mean(r, sum, share);
  }
};

}  // namespace

Fields fields_of(LocalSgdOptions& options) {
  return {{"sync_every", &options.sync_every, "number of steps from one averaging to the next",
           Range::positive},
          {"distance", &options.distance, "also measure how far replicas are from their mean"}};
}

std::unique_ptr<SyncScheme> make_local_sgd(const RankContext& context,
                                           const LocalSgdOptions& options) {
  return std::make_unique<Averaging>(context, options);
}

std::unique_ptr<SyncScheme> define_local_sgd(const RankContext& context,
                                             const LocalSgdOptions& options) {
  return std::make_unique<Definition>(context, options);
}

double local_sgd_minimum_bytes(const StepShape& shape, const LocalSgdOptions& options) {
  const double n = shape.world;
  return 2 * (n - 1) / n * 4 * static_cast<double>(shape.parameters) /
         static_cast<double>(options.sync_every);
}

SchemeInfo local_sgd_info() {
  using Own = LocalSgdOptions;
  auto r =
      plain_scheme("averaging", "local SGD: peers average their replicas every few steps", Own{});
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.own_replicas = true;
  r.tried = {{"every_step", Own{.sync_every = 1}}, {"with_distance", Own{.distance = true}}};
  r.identities = {{{"scheme.averaging.sync_every=1", "optimizer.kind=sgd"}, "single"}};
  r.make = with_own<Own>(make_local_sgd);
  r.define = with_own<Own>(define_local_sgd);
  r.minimum_bytes = [](const Options& options, const StepShape& shape) {
    return local_sgd_minimum_bytes(shape, options.as<Own>());
  };
  return r;
}

}  // namespace ringside::peer
