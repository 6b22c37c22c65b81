// ModelPasses: forward and backward of the rank's units over micro-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/data/loader.h"
#include "core/models/model_part.h"
#include "core/scheme/scheme.h"
#include "core/train/own_faults.h"
#include "core/train/slowdown.h"
#include "core/train/unit_outputs.h"

namespace ringside {

/// A micro-batch that is under way in some consecutive units of the rank's model, from begin() to
/// the end of its backward. It must not move from forward() on: `saved` refers to `side`.
struct MicroBatch {
  Pass pass;
  UnitRange units;               // of the rank's model
  Batch batch{};                 // inputs where the model begins, targets where it ends
  SideValues side{};             // of all edges of the model
  std::vector<Saved> saved{};    // by unit of the range
  std::vector<Tensor> inputs{};  // of units that are recomputed, until their backward
  std::vector<Loss> losses{};    // where the model ends: of each rank of the pass
};

/// Runs a worker's micro-batches through the units of its model, with the scheme's calls around
/// each (SyncScheme), and its spans of Activity::compute. Faults on purpose slow it down or spoil
/// what it computes. For the thread that trains.
class ModelPasses {
 public:
  /// All arguments outlive this object.
  ModelPasses(const RankContext& context, Model& model, SyncScheme& scheme,
              const OwnFaults& faults);

  /// A step begins, whose gradients are multiplied by `gradient_scale`.
  void begin_step(std::int64_t step, float gradient_scale, const Loader& training);

  /// Forward and backward of the whole model. Returns the loss of the micro-batch, or of each of
  /// several that are computed at once, without its gradient; the numbers may still be on the
  /// device.
  std::vector<Loss> train(const Pass& pass, const Loader& training);
  /// The held-out loss of the worker's part of global batch number `index`, by the pass's
  /// micro-batch, of the whole model. Waits for the device.
  LossValue evaluate(const Pass& pass, std::int64_t index, const Loader& held_out);

  // The parts of these, for units of one stage at a time.

  /// Takes those samples of a global batch of `loader` that belong to this rank and to the pass's
  /// micro-batch, if the units begin or end the model.
  MicroBatch begin(Pass pass, std::int64_t index, const Loader& loader, UnitRange units);
  /// Returns the output of the last unit; `input` is empty where the model begins. Where the model
  /// ends, computes the losses, the first of which has the gradient of all, and returns nothing.
  Tensor forward(MicroBatch& of, Tensor input);
  /// Of some of its units, from the last to the first. Returns the gradient of the first unit's
  /// input, empty where the model begins; `gradient` is that of the last unit's output, empty where
  /// the model ends. With `halves` the gradients of parameters wait for weight_gradients().
  Tensor backward(MicroBatch& of, Tensor gradient, UnitRange units, bool halves);
  void weight_gradients(MicroBatch& of, UnitRange units);
  /// `listen` hears of every unit that is about to compute forward, bound to its parameters.
  void when_bound(std::function<void(std::size_t unit)> listen) { bound_ = std::move(listen); }
  /// Sets the number of targets over which the loss of this global batch of `loader` is a mean.
  void count_targets(const Loader& loader, std::int64_t index);

  /// Whether outputs of the last step were finite, by unit of the rank's model.
  const UnitOutputs& outputs() const { return outputs_; }

 private:
  bool begins(UnitRange units) const;
  bool ends(UnitRange units) const;
  std::vector<Loss> losses_of(const Tensor& logits, const Batch& batch, const Pass& pass);
  Tensor run_unit(MicroBatch& of, std::size_t unit, const Tensor& input);
  void recompute(MicroBatch& of, std::size_t unit);
  /// Whether a unit's activations are dropped in forward and recomputed in backward. Those of the
  /// model's last unit are kept, because backward begins with this unit.
  bool recomputes(std::size_t unit) const;
  bool is_last(std::size_t unit) const;

  const RankContext& context_;
  Model& model_;
  SyncScheme& scheme_;
  const OwnFaults& faults_;
  LossTerms terms_;
  const Loader* counted_ = nullptr;  // the loader of the present global batch
  std::int64_t counted_index_ = 0;   // its number there
  UnitOutputs outputs_;
  Slowdown slowdown_;
  std::function<void(std::size_t)> bound_;
};

}  // namespace ringside
