// MeshRank: what a rank of a mesh has of its run.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/store.h"
#include "core/models/model_part.h"
#include "core/scheme/pipeline_group.h"

namespace ringside::runner {

/// A rank's view of a run whose workers form a mesh: the run along the data dimension, which its
/// scheme sees, and the part of the model that it has. Without a pipeline: the run and the model
/// themselves.
class MeshRank {
 public:
  /// The arguments outlive this object.
  MeshRank(const RunPlan& plan, int rank, Store& store);

  const RunPlan& plan() const { return view_ ? *view_ : whole_; }
  int rank() const { return rank_; }
  Store& store() { return part_ ? static_cast<Store&>(*part_) : store_; }

  /// Takes this rank's part of the model, and of its initial values, which may be null: then they
  /// are drawn.
  Model part_of(Model whole);
  std::shared_ptr<const InitialValues> values_of(std::shared_ptr<const InitialValues> whole,
                                                 const Model& part) const;
  /// Makes the group of this worker's pipeline; null without one. `whole` is the rank's context in
  /// the whole run. Collective among its workers; blocks.
  std::unique_ptr<PipelineGroup> pipeline(const RankContext& whole) const;

 private:
  const RunPlan& whole_;
  Store& store_;
  int rank_;
  std::optional<RunPlan> view_;
  std::optional<StorePart> part_;
  int place_ = 0;                       // in the pipeline
  std::vector<std::int64_t> counts_{};  // of the parameters of all units of the model
};

}  // namespace ringside::runner
