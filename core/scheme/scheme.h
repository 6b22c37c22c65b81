// SyncScheme: one way of keeping replicas in step.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/traffic.h"
#include "core/data/loader.h"
#include "core/models/model.h"
#include "core/observe/rank_record.h"
#include "core/optim/optimizer.h"
#include "core/scheme/loss.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/state.h"

namespace ringside {

/// The next work of a rank: it trains on micro-batches [first, first + micro_batches) of a step, or
/// evaluates its model after that step on held-out samples of these micro-batches, or both.
struct StepAssignment {
  std::int64_t step = 0;
  std::int64_t first = 0, micro_batches = 1;
  bool trains = true;
  bool evaluates = true;  // if the step is one after which the run evaluates
  /// Above 0: the rank does neither, but saves its state after so many steps of the run, of which
  /// it has done `step` itself (SyncScheme::says_when_to_save).
  std::int64_t saves_after = 0;
};

/// The trainer calls, on one thread, attach() once and then, for each assignment and every
/// micro-batch, fetch, [before_forward, forward, after_forward] for each unit, loss,
/// [before_backward, backward, after_backward] for each unit from the last to the first. After the
/// last micro-batch it calls step(), and drain() if no communication may outlast the step.
/// Evaluation calls only the forward hooks, with Pass::training false. `unit` is the unit's index
/// in the model. In a pipeline the model is this worker's part of it, and several micro-batches are
/// under way; each unit's backward is called in their order. A call that blocks waits for peers,
/// and throws Error if they do not come.
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

  /// Where a pipeline divides backward (Pass::halves), because its schedule does or because a
  /// unit's gradient waits for a table, before_backward() and after_input_gradient() enclose the
  /// first half, which writes no gradients of parameters, and before_weight_gradient() and
  /// after_backward() the second, which reads no parameters. Units of other stages and
  /// micro-batches may come in between, but none of those before which Model::divides_gradients()
  /// is false.
  virtual void after_input_gradient(std::size_t unit, const Pass&) { (void)unit; }
  virtual void before_weight_gradient(std::size_t unit, const Pass& pass) {
    before_backward(unit, pass);
  }

  /// The worker's next assignment after `done` assignments (not counting those that only save);
  /// none if the run is over. By default every rank trains on all its micro-batches, step by step,
  /// train.steps times. A scheme whose workers do not wait for each other may give them more or
  /// fewer steps; a definition, which has the micro-batches of all workers, may compute those of
  /// one worker at a time, in any order.
  virtual std::optional<StepAssignment> next_assignment(std::int64_t done);

  /// Makes the parameters of the next step out of the gradients of this step, or begins to. Returns
  /// false, on all ranks, if gradients were not finite and such steps are skipped (skips_steps());
  /// then nothing has changed.
  virtual bool step(const StepInfo& info) = 0;

  /// Calls `put_right` once, which writes parameters anew: step() has updated them before the sums
  /// over all stages of a pipeline were known, and these say otherwise (SchemeInfo::amends). Makes
  /// the parameters of the next step out of them, in place of those that step() has made; forward
  /// may have begun with those, but no backward. Collective among the workers of a stage; blocks
  /// until none of them reads the former values.
  virtual void amend(const std::function<void()>& put_right) { put_right(); }

  /// Blocks until the parameters of the next step are here and no communication that step() began
  /// is in flight. All workers call drain().
  virtual void drain() {}

  /// The number of samples over which the gradient of a step is a mean. Every gradient of a worker
  /// is divided by it, so that the sum of all gradients that make one update is that mean.
  virtual std::int64_t gradient_batch() const { return context_.plan.train.global_batch; }

  /// The number of replicas on this rank whose parameters may differ from those of other ranks; 0
  /// if all workers hold the same parameters after a step. With n > 0, each replica takes its part
  /// of the micro-batches of a step, one replica after the other; running statistics are not
  /// averaged over replicas, and evaluations judge every replica on its own samples.
  virtual int own_replicas() const { return 0; }

  /// Whether next_assignment() says when a run's state is saved, and when a run that was told to
  /// stop ends: where workers do not wait for each other at every step, they meet for that.
  /// Otherwise every worker saves after the steps that [checkpoint] names, and all agree after
  /// every step on whether to stop.
  virtual bool says_when_to_save() const { return false; }

  /// Handles what has come from peers, and tells them that this rank is there: called from time to
  /// time while the rank waits for something else. Does not block.
  virtual void keep_in_touch() {}

  /// Replaces every value by its sum over all workers, in rank order. Collective; blocks. With own
  /// replicas it is called only in runs that write checkpoints, or whose world may change.
  virtual void sum(std::span<double> values) { (void)values; }

  /// Returns this rank's samples; the default takes them from the rank's own loader.
  virtual Batch fetch(const BatchSlice& slice, const Loader& loader, const Pass& pass);

  /// Computes the loss; may overwrite `logits`. The default computes on this rank.
  virtual Loss loss(const Tensor& logits, const Batch& batch, const LossTerms& terms,
                    const Pass& pass);

  /// Calls `visit` with every unit's parameters (a flat range), in unit order: those with which
  /// this worker would compute its next step. Workers that hold the same parameters (own_replicas()
  /// is 0) all show theirs, as those of replica 0, and a run in which they differ is wrong. A
  /// scheme whose run ends with several replicas shows the rank's, one after the other; a replica's
  /// number is that of its worker. Where workers may end with older values than servers have,
  /// worker 0 alone shows what the servers have. Collective: all workers call this function. No
  /// communication is in flight when it returns.
  using ParameterVisitor = std::function<void(int replica, const Unit& unit, const Tensor& values)>;
  virtual void visit_parameters(const ParameterVisitor& visit) = 0;

  /// Elements [first, first + second) of the model's parameters that this worker keeps and updates,
  /// where others keep the rest; by default it keeps all. The proof uses them to name the rank of a
  /// wrong parameter.
  virtual std::vector<std::pair<std::int64_t, std::int64_t>> kept() const { return {}; }

  /// Visits all state of the run that this rank keeps (core/scheme/state.h), but for what the
  /// trainer keeps: running statistics, the loss scale, losses. Called after attach() or drain(). A
  /// scheme whose info says that its runs can go on (SchemeInfo::resumes) shows all that it has;
  /// the default throws Error.
  virtual void visit_state(const StateVisitor& visit);
  /// The values of all that visit_state() shows have been written, after attach(), as they were
  /// between two steps; `skipped` steps had changed nothing. Collective; blocks.
  virtual void restored(std::int64_t skipped);

  /// The traffic of this rank's part of the scheme so far.
  virtual Traffic traffic() const { return {}; }

  /// Figures of this scheme's own, which all workers ask for after the last step. May wait for the
  /// device. Figures that are not finite are left out of the rank's record.
  virtual std::vector<SchemeFigure> figures() const { return {}; }

 protected:
  explicit SyncScheme(RankContext context) : context_(std::move(context)) {}
  const RankContext& context() const { return context_; }

 private:
  RankContext context_;
};

}  // namespace ringside
