#include "core/scheme/independent.h"

#include "core/scheme/local_replicas.h"

namespace ringside {
namespace {

class Independent final : public LocalReplicas {
 public:
  Independent(const RankContext& context, int replicas) : LocalReplicas(context, replicas) {}
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
  r.minimum_bytes = [](const Options&, const StepShape&) { return 0.0; };
  return r;
}

}  // namespace ringside
