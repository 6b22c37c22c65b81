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

}  // namespace ringside
