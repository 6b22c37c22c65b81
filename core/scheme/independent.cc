#include "core/scheme/independent.h"

#include "core/scheme/side_by_side.h"

namespace ringside {
namespace {

class Independent final : public SideBySide {
 public:
  Independent(const RankContext& context, int replicas) : SideBySide(context, replicas) {}
};

}  // namespace

std::unique_ptr<SyncScheme> make_independent(const RankContext& context) {
  return std::make_unique<Independent>(context, 1);
}

std::unique_ptr<SyncScheme> define_independent(const RankContext& context) {
  return std::make_unique<Independent>(context, context.plan.defines);
}

}  // namespace ringside
