// PipelineStep: carries out a rank's actions of a pipeline's schedule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "core/scheme/pipeline_group.h"
#include "core/train/model_passes.h"
#include "core/train/pipeline_times.h"
#include "core/train/stage_links.h"
#include "core/train/table_links.h"

namespace ringside {

/// One executor for real ranks, GPUs and simulated ones: it does the actions of its rank in their
/// order (core/pipeline/schedule.h), waits for what an action needs, and leaves everything else to
/// ModelPasses and StageLinks. For the thread that trains.
class PipelineStep {
 public:
  /// The arguments outlive this object; the context has a pipeline.
  PipelineStep(const RankContext& context, const Model& model, ModelPasses& passes);

  /// Does all micro-batches of a step; `pass` has what they have in common. Returns their losses,
  /// in their order, if this rank has the last stage, else nothing. No send is under way
  /// afterwards. With pipeline.post_validation it asks `may_go_on` at the rank's validation point,
  /// which answers alike on all ranks; if not, everything that is under way is let go of, and the
  /// step begins anew.
  std::vector<Loss> train(const Pass& pass, const Loader& training,
                          const std::function<bool()>& may_go_on);
  /// The held-out loss of the worker's part of global batch number `index`, by the pass's
  /// micro-batch, if this rank has the last stage, which then waits for the device; else 0.
  LossValue evaluate(const Pass& pass, std::int64_t index, const Loader& held_out);
  /// Before the first and after the last evaluate() with the same parameters. No send is under way
  /// after the latter.
  void begin_evaluation();
  void end_evaluation();

  bool has_losses() const;

  /// The step that train() has done counts for record(). Blocks until the device has done it.
  void count_step() { times_.count_step(sent()); }
  PipelineRecord record() const;

 private:
  using Key = std::pair<int, std::int64_t>;  // stage, micro-batch
  using MicroBatches = std::map<Key, MicroBatch>;
  /// A micro-batch that has left its stage but for gradients that wait for a table.
  struct LateSum {
    pipeline::Action action{};  // B or W
    std::size_t before = 0;     // the index of the action
    MicroBatches::node_type of{};
  };

  /// A span of the action in a trace, without its waits, so that a trace shows the bubble.
  Timeline::Scope traced(const pipeline::Action& action, bool is_rest = false);
  void carry_out(const pipeline::Action& action, const Pass& pass, const Loader& training);
  void forward(const pipeline::Action& action, const Pass& pass, const Loader& training);
  void backward(const pipeline::Action& action, bool halves);
  void weight_gradients(const pipeline::Action& action);
  void move(const pipeline::Action& action);
  /// What tables have left for later and is due before the rank's action number `next`.
  void add_up_late(std::size_t next);
  void begin();
  void give_up();
  void end_sends();
  std::int64_t sent() const { return context_.pipeline->traffic().sent; }  // bytes so far
  /// The micro-batch leaves the stage, or waits for add_up_late().
  void end(const pipeline::Action& action, MicroBatch& of);
  /// `is_rest`: of an action that was carried out before.
  template <class Work>
  void timed(const pipeline::Action& action, bool is_rest, const Work& work);
  /// Does what waits for other stages.
  template <class Work>
  void waited(const Work& work);
  /// The units of the micro-batch whose gradients of parameters wait for a table; may be none.
  UnitRange rest_of(const pipeline::Action& action, const MicroBatch& of) const;
  /// Waits for the table, and does what is left of the action.
  template <class Work>
  void do_rest(const pipeline::Action& action, MicroBatch& of, const Work& work);
  Tensor take(Way way, int stage, std::int64_t micro_batch, SideValues& side);
  bool is_last(int stage) const;
  UnitRange units_of(int stage) const;

  const RankContext& context_;
  const Model& model_;
  ModelPasses& passes_;
  const pipeline::Schedule& schedule_;
  const int rank_;
  std::vector<int> stages_;  // of this rank
  /// pipeline::validation_points(), of all ranks; empty if optimizers wait for the sums over
  /// stages.
  const std::vector<std::size_t> points_;
  StageLinks links_;
  TableLinks tables_;
  PipelineTimes times_;
  MicroBatches under_way_;
  std::list<LateSum> late_;     // in the order of actions
  std::vector<Loss> losses_;    // of the present step
  std::int64_t evaluated_ = 0;  // micro-batches: the number of the next one on its way
};

}  // namespace ringside
