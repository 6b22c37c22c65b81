#include "peer/fsdp/shard_carrier.h"

#include "peer/fsdp/on_demand.h"
#include "peer/schemes/exposed.h"

namespace ringside::peer {
namespace {

class CollectiveCarrier : public ShardCarrier {
 public:
  CollectiveCarrier(const RankContext& context, Communicator& group, const Shards& shards,
                    const ShardedStorage& parameters)
      : context_(context), group_(group), shards_(shards), shared_(parameters.shared()) {}

  WorkPtr gather(std::size_t fsdp_unit, const Tensor& shard, const Tensor& padded) override {
    group_.name_next(shards_.fsdp_units()[fsdp_unit].name);
    return group_.all_gather(shard, padded);
  }
  WorkPtr reduce(std::size_t, const std::string& name, const Tensor& gradient, const Tensor& part,
                 bool) override {
    group_.name_next(name);
    return group_.reduce_scatter(gradient, part);
  }

  /// A rank that updates its shard of an FSDP unit has the FSDP unit's gradients of all ranks, so
  /// none of them reads the FSDP unit any more. What is left is to wait for the new values.
  void leave() override {
    if (shared_) wait_for_all(context_.timeline, group_, "parameters are new");
  }

 private:
  const RankContext& context_;
  Communicator& group_;
  const Shards& shards_;
  bool shared_;  // the parameters
};

}  // namespace

std::unique_ptr<ShardCarrier> make_collective_carrier(const RankContext& context,
                                                      Communicator& group, const Shards& shards,
                                                      const ShardedStorage& parameters) {
  return std::make_unique<CollectiveCarrier>(context, group, shards, parameters);
}

std::unique_ptr<ShardCarrier> make_carrier(const RankContext& context, const Degree& degree,
                                           Communicator* group, const Shards& shards,
                                           const ShardedStorage& parameters) {
  if (!group) return nullptr;
  if (degree.on_demand) return make_on_demand_carrier(context, *group, shards, parameters);
  return make_collective_carrier(context, *group, shards, parameters);
}

}  // namespace ringside::peer
