#include "core/scheme/independent.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/scheme/local_replicas.h"
#include "core/scheme/plain_scheme.h"

namespace ringside {
namespace {

/// Workers meet only to write checkpoints, after the same step.
class Independent final : public LocalReplicas {
 public:
  Independent(const RankContext& context, int replicas) : LocalReplicas(context, replicas) {
    if (!context.plan.checkpoint.path.empty() && context.plan.world > 1)
      communicator_ = context.communicator(all_workers(context, "independent"));
  }

  void sum(std::span<double> values) override {
    if (!communicator_) return;
    Device& device = context().device;
    const auto count = static_cast<std::int64_t>(values.size());
    const Tensor all =
        device.tensor({count * communicator_->size()}, MemoryKind::communication, DType::f64);
    const Tensor own = all.range(count * communicator_->rank(), count);
    device.write(own, std::as_bytes(values));
    communicator_->complete([&] { return communicator_->all_gather(own, all); });
    std::vector<double> gathered(static_cast<std::size_t>(all.count()));
    device.read(all, std::as_writable_bytes(std::span(gathered)));
    std::ranges::fill(values, 0.0);
    for (std::size_t i = 0; i < gathered.size(); ++i) values[i % values.size()] += gathered[i];
  }

 private:
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace

std::unique_ptr<SyncScheme> make_independent(const RankContext& context) {
  return std::make_unique<Independent>(context, 1);
}

std::unique_ptr<SyncScheme> define_independent(const RankContext& context) {
  return std::make_unique<Independent>(context, context.plan.defines);
}

SchemeInfo independent_info() {
  auto r = plain_scheme("independent", "no synchronisation: every worker trains a model of its own",
                        IndependentOptions{});
  r.topology = SchemeTopology::none;
  r.promise = [](const Options&) { return Promise::own_algorithm; };
  r.own_replicas = true;
  r.make = [](const RankContext& context, const Options&) { return make_independent(context); };
  r.define = [](const RankContext& context, const Options&) { return define_independent(context); };
  r.resumes = [](const Options&) { return true; };
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  return r;
}

}  // namespace ringside
