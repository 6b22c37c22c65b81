// The optimizer update of a rank's shards.
#pragma once

#include <memory>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/scheme/rank_context.h"
#include "peer/fsdp/gradient_shards.h"
#include "peer/fsdp/sharded_storage.h"

namespace ringside::peer {

/// The optimizer of this rank's shards. For one thread; all ranks of a mesh do the same.
class ShardUpdate {
 public:
  /// All arguments outlive this object.
  ShardUpdate(const RankContext& context, const Shards& shards, const ShardedStorage& parameters,
              GradientShards& gradients, const Mesh& mesh);

  /// Notes that backward has completed the FSDP units from `lowest` on: the optimizer may begin
  /// with those of them whose sums have arrived.
  void backward_has_completed(std::size_t lowest, const StepInfo& info);
  /// Updates all shards; waits for gradients that are on their way. Returns false as
  /// Optimizer::settle().
  bool step(const StepInfo& info);
  /// Waits until this rank's shard of the FSDP unit, or of all FSDP units, is updated.
  void finish(std::size_t fsdp_unit);
  void finish_all();

 private:
  ParameterRange range(std::size_t fsdp_unit) const;
  std::vector<ParameterRange> ranges() const;
  bool step_by_fsdp_unit(const StepInfo& info);
  bool step_at_once(const StepInfo& info);

  const RankContext& context_;
  const Shards& shards_;
  const ShardedStorage& parameters_;
  GradientShards& gradients_;
  const Mesh& mesh_;
  std::unique_ptr<Optimizer> optimizer_;
  std::size_t expected_;  // the optimizer has been told of the FSDP units from this one on
};

}  // namespace ringside::peer
