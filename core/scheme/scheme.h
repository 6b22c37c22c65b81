// SyncScheme: one way of keeping replicas in step.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "core/base/traffic.h"
#include "core/data/loader.h"
#include "core/models/model.h"
#include "core/optim/optimizer.h"
#include "core/scheme/loss.h"
#include "core/scheme/rank_context.h"

namespace ringside {

/// The trainer calls, on one thread, attach() once and then, for every step and micro-batch,
/// fetch, [before_forward, forward, after_forward] for each unit, loss, [before_backward,
/// backward, after_backward] for each unit from the last to the first; after the last micro-batch
/// step(), and drain() where nothing may outlast the step. Evaluation calls the forward hooks
/// alone, with Pass::training false. `unit` is the index in the model. What blocks, blocks on
/// peers, and throws Error when they do not come.
class SyncScheme {
 public:
  virtual ~SyncScheme() = default;

  /// Decides where parameters, gradients and optimizer state live, makes this rank's part of the
  /// initial values and binds the units. The model outlives the scheme.
  virtual void attach(Model& model) = 0;

  virtual void before_forward(std::size_t unit, const Pass&) { (void)unit; }
  virtual void after_forward(std::size_t unit, const Pass&) { (void)unit; }
  virtual void before_backward(std::size_t unit, const Pass&) { (void)unit; }
  virtual void after_backward(std::size_t unit, const Pass&) { (void)unit; }

  /// Makes the parameters of the next step out of the gradients of this one (or has it begun).
  /// False, on all ranks, where gradients were not finite and nothing has changed (StepInfo).
  virtual bool step(const StepInfo& info) = 0;

  /// Blocks until the parameters of the next step are here and nothing that step() began is in
  /// flight. All workers call it.
  virtual void drain() {}

  /// Every value becomes its sum over workers, in rank order. Collective; blocks.
  virtual void sum(std::span<double> values) = 0;

  /// This rank's samples; by default from its own loader.
  virtual Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass);

  /// May overwrite `logits`. By default computed here.
  virtual Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
                    const Pass& pass);

  /// Calls `visit` with every unit's parameters (a flat range), in unit order, on worker 0;
  /// collective: all workers call it. Nothing is in flight afterwards.
  using ParameterVisitor = std::function<void(const Unit&, const Tensor& values)>;
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;

  /// What this rank's part of the scheme sent and received so far.
  virtual Traffic traffic() const { return {}; }

 protected:
  /// Kernels of the default loss().
  explicit SyncScheme(RankContext context) : context_(std::move(context)) {}
  const RankContext& context() const { return context_; }

 private:
  RankContext context_;
};

}  // namespace ringside
