#include "peer/shard_carrier.h"

#include "peer/on_demand.h"

namespace ringside::peer {
namespace {

class CollectiveCarrier : public ShardCarrier {
 public:
  CollectiveCarrier(Communicator& group, const Shards& shards) : group_(group), shards_(shards) {}

  WorkPtr gather(std::size_t bundle, const Tensor& shard, const Tensor& padded) override {
    group_.name_next(shards_.bundles()[bundle].name);
    return group_.all_gather(shard, padded);
  }
  WorkPtr reduce(std::size_t, const std::string& name, const Tensor& gradient, const Tensor& part,
                 bool) override {
    group_.name_next(name);
    return group_.reduce_scatter(gradient, part);
  }

 private:
  Communicator& group_;
  const Shards& shards_;
};

}  // namespace

std::unique_ptr<ShardCarrier> make_collective_carrier(Communicator& group, const Shards& shards) {
  return std::make_unique<CollectiveCarrier>(group, shards);
}

std::unique_ptr<ShardCarrier> make_carrier(const RankContext& context, const Degree& degree,
                                           Communicator* group, const Shards& shards,
                                           const Kept& parameters) {
  if (!group) return nullptr;
  if (degree.on_demand) return make_on_demand_carrier(context, *group, shards, parameters);
  return make_collective_carrier(*group, shards);
}

}  // namespace ringside::peer
