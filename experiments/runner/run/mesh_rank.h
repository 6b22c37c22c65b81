// MeshRank: what a rank of a mesh has of its run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/comm/store.h"
#include "core/models/model_part.h"
#include "core/scheme/pipeline_group.h"
#include "core/sim/world.h"

namespace ringside::runner {

/// What the ranks of a run with a pipeline find out about it. The ranks of a simulated world, which
/// run one at a time, share one.
class PipelineOfRun {
 public:
  std::shared_ptr<const pipeline::Schedule> schedule(const RunPlan& plan);
  std::shared_ptr<const Borders> borders(const RunPlan& plan);
  /// The run along the data dimension (data_view()).
  const RunPlan& view(const RunPlan& plan, int place);

 private:
  std::shared_ptr<const pipeline::Schedule> schedule_;
  std::shared_ptr<const Borders> borders_;
  std::map<int, RunPlan> views_;  // by place in the pipeline
};

/// A rank's view of a run whose workers form a mesh: the run along the data dimension, which its
/// scheme sees, and the part of the model that it has. Without a pipeline: the run and the model
/// themselves.
class MeshRank {
 public:
  /// The arguments outlive this object; `world` is null for a real rank.
  MeshRank(const RunPlan& plan, int rank, Store& store, sim::World* world);
  /// Shares what it finds out with the other ranks that have `run`, which run one at a time.
  MeshRank(const RunPlan& plan, int rank, Store& store, std::shared_ptr<PipelineOfRun> run);

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
  std::shared_ptr<PipelineOfRun> run_{};  // null without a pipeline
  const RunPlan* view_ = nullptr;         // in `run_`
  std::optional<StorePart> part_;
  int place_ = 0;                       // in the pipeline
  std::vector<std::int64_t> counts_{};  // of the parameters of all units of the model
};

}  // namespace ringside::runner
