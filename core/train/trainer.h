// The only training loop in the project.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/observe/record.h"
#include "core/optim/loss_scale.h"
#include "core/scheme/scheme.h"
#include "core/train/unit_outputs.h"

namespace ringside {

/// Told after every step.
struct Progress {
  std::int64_t step = 0;              // steps done
  double loss = 0;                    // this rank's share
  double seconds = 0;                 // of the last step
  std::optional<LossValue> held_out;  // where it was evaluated after this step
};

/// Trains `model` as the plan says: data, micro-batches, evaluation, figures. One worker's part;
/// all workers of a run do the same.
class Trainer {
 public:
  /// `held_out` may be null. Everything outlives the trainer.
  Trainer(const RankContext& context, Model& model, SyncScheme& scheme, const Loader& training,
          const Loader* held_out);

  /// Blocks until the last step is done. Throws Error that names the step when a loss is not
  /// finite, and whatever the scheme throws.
  RankRecord run(const std::function<void(const Progress&)>& progress);

 private:
  /// This rank's share of the loss, by micro-batch.
  std::vector<double> train_step(std::int64_t step);
  bool evaluated_after(std::int64_t step) const;
  /// Whether nothing may be in flight after the step. Measured steps begin and end so, and so do
  /// evaluations: what a scheme lets run on into the next step is counted once, and in a step.
  bool drains_after(std::int64_t step) const;
  /// What it left on the device of its loss, without the gradient.
  Loss train_micro_batch(Pass pass);
  /// Of this rank's part, for the pass's micro-batch, of a global batch of `loader`. The pass
  /// learns which samples these are.
  Loss forward(Pass& pass, std::int64_t global_batch_index, const Loader& loader);
  void recompute(std::size_t unit, Pass pass);
  LossValue evaluate(std::int64_t step);
  /// The same; adds its time and traffic to the record.
  LossValue evaluate(std::int64_t step, RankRecord& record);
  /// Every running statistic becomes the mean over all micro-batches of all ranks. Collective.
  void average_statistics();
  int worker() const;
  std::string parameter_hash();
  /// Whether a unit's activations are dropped in forward and made again in backward. Those of the
  /// last one are wanted at once.
  bool recomputes(std::size_t unit) const;

  const RankContext& context_;
  Model& model_;
  SyncScheme& scheme_;
  const Loader& training_;
  const Loader* held_out_;
  LossTerms terms_;
  LossScale loss_scale_;
  UnitOutputs outputs_;
  std::vector<Tensor> inputs_;  // of the units that are recomputed, until their backward
};

}  // namespace ringside
