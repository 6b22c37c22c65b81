// SavedWeights: the file of a run's trained weights.
#pragma once

#include <cstdint>

#include "core/interchange/weights.h"
#include "core/scheme/scheme.h"

namespace ringside::runner {

/// The weights file of a run (RunPlan::save), as worker 0 writes it: unit after unit, of each of
/// which the values come at once or in pieces.
class SavedWeights {
 public:
  /// `model` is the whole model. All arguments outlive this object. Throws Error if the file cannot
  /// be written, as add() and finish() do.
  SavedWeights(const RunPlan& plan, const Model& model, Device& device);

  /// Elements of a unit's range from `begin` on; pieces come in order. Blocks.
  void add(std::size_t unit, std::int64_t begin, const Tensor& values);
  void finish() { file_.finish(plan_.train.steps); }

 private:
  const RunPlan& plan_;
  const Model& model_;
  Device& device_;
  WeightsFile file_;
  Tensor unit_;  // whose pieces come
};

/// Writes the trained weights of replica 0 if the plan asks for that; `model` is this rank's part.
/// Collective: all workers call it after the last step, and worker 0 writes. Blocks.
void save_weights(const RankContext& context, const Model& model, SyncScheme& scheme);

}  // namespace ringside::runner
