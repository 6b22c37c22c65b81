// ModelPasses: forward and backward of the model over one micro-batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/loader.h"
#include "core/scheme/scheme.h"
#include "core/train/own_faults.h"
#include "core/train/slowdown.h"
#include "core/train/unit_outputs.h"

namespace ringside {

/// Runs a worker's micro-batches through the units of the model, with the scheme's calls around
/// each (SyncScheme), and its spans of Activity::compute. Faults on purpose slow it down or spoil
/// what it computes. For the thread that trains.
class ModelPasses {
 public:
  /// All arguments outlive this object.
  ModelPasses(const RankContext& context, Model& model, SyncScheme& scheme,
              const OwnFaults& faults);

  /// A step begins, whose gradients are multiplied by `gradient_scale`.
  void begin_step(std::int64_t step, float gradient_scale, const Loader& training);

  /// Forward and backward. Returns the loss of the micro-batch, or of each of several that are
  /// computed at once, without its gradient; the numbers may still be on the device.
  std::vector<Loss> train(Pass pass, const Loader& training);
  /// The held-out loss of the worker's part of global batch number `index`, by the pass's
  /// micro-batch. Waits for the device.
  LossValue evaluate(Pass pass, std::int64_t index, const Loader& held_out);

  /// What the first output of the step was that is not finite, for the error of such a step.
  std::string first_not_finite() { return outputs_.first_not_finite(model_); }

 private:
  /// Runs forward on those samples of a global batch of `loader` that belong to this rank and to
  /// the pass's micro-batch, or to each of its micro-batches. Records the numbers of these samples
  /// in the pass. The first loss has the gradient of them all.
  std::vector<Loss> forward(Pass& pass, std::int64_t index, const Loader& loader);
  std::vector<Loss> losses_of(const Tensor& logits, const Batch& batch, const Pass& pass);
  /// Sets the number of targets over which the loss of this global batch of `loader` is a mean.
  void count_targets(const Loader& loader, std::int64_t index);
  void recompute(std::size_t unit, Pass pass);
  void forget();
  /// Whether a unit's activations are dropped in forward and recomputed in backward. The last
  /// unit's activations are kept, because backward begins with this unit.
  bool recomputes(std::size_t unit) const;

  const RankContext& context_;
  Model& model_;
  SyncScheme& scheme_;
  const OwnFaults& faults_;
  LossTerms terms_;
  UnitOutputs outputs_;
  Slowdown slowdown_;
  std::vector<Tensor> inputs_;  // inputs of recomputed units, until their backward
  SideValues side_;             // of the present micro-batch, like saved_
  std::vector<Saved> saved_;    // one for each unit
};

}  // namespace ringside
