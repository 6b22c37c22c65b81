// SyncScheme: one way of keeping replicas in step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/shared.h"
#include "core/base/traffic.h"
#include "core/cluster/plan.h"
#include "core/cluster/store.h"
#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/models/initial_values.h"
#include "core/models/model.h"
#include "core/observe/timeline.h"

namespace ringside {

/// Where a scheme finds itself. Everything outlives it.
struct RankContext {
  const RunPlan& plan;
  int rank;
  Device& device;
  Store& store;
  Timeline& timeline;
  /// Between the threads of a rank that computes and serves; null where a rank has one thread.
  Shared* shared = nullptr;
  /// Null: drawn by the plan's seed.
  std::shared_ptr<const InitialValues> initial_values{};
};

/// What the parameters start with.
std::shared_ptr<const InitialValues> initial_values(const RankContext& context);

/// What the least traffic of a step depends on; bytes of the global batch.
struct StepShape {
  int world = 1;
  int servers = 0;
  std::int64_t micro_batches = 1;  // a rank
  std::int64_t reductions = 1;     // of the gradients: at every micro-batch, or once
  std::int64_t parameter_bytes = 0;
  std::int64_t lent_bytes = 0;  // parameters of units that others read as well (Unit::lender)
  std::int64_t input_bytes = 0;
  std::int64_t logit_bytes = 0;
};

/// What a loss is made of: the terms of the model, each divided by the rows of the global batch.
struct LossTerms {
  std::vector<LossTerm> terms;
  std::int64_t global_batch = 1;
  float gradient_scale = 1;  // of the gradient alone (loss scaling of fp16)
};

/// Shares of a global batch's mean.
struct LossValue {
  double loss = 0;
  double accuracy = 0;  // of the first term, in evaluation
};

/// What some samples add to the loss. It may stand on the device still: value_of() brings it.
struct Loss {
  /// Of one term: what is to be added up, fp32, times `scale`.
  struct Rows {
    Tensor losses{}, hits{};  // hits empty in training
    float scale = 0;
  };
  LossValue known{};  // to the host
  std::vector<Rows> rows{};
  Tensor gradient{};  // of the logits; empty in evaluation
};

/// Rows are summed in fp64, in order. Blocks until they are computed.
LossValue value_of(Device& device, const Loss& loss);

/// The loss of `logits` (see Model) against `targets`. The gradient takes the place of the logits.
/// Does not wait for the device.
Loss cross_entropy(Device& device, const Tensor& logits, const Tensor& targets,
                   const LossTerms& terms, bool with_gradient);

/// The trainer calls, on one thread, attach() once and then, for every step and micro-batch,
/// fetch, [before_forward, forward, after_forward] for each unit, loss, [before_backward,
/// backward, after_backward] for each unit from the last to the first; after the last micro-batch
/// step(). Evaluation calls the forward hooks alone, with Pass::training false. `unit` is the
/// index in the model. What blocks, blocks on peers, and throws Error when they do not come.
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
  explicit SyncScheme(RankContext context) : context_(context) {}
  const RankContext& context() const { return context_; }

 private:
  RankContext context_;
};

}  // namespace ringside
