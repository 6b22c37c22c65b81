// The only training loop in the project.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/observe/rank_record.h"
#include "core/optim/loss_scale.h"
#include "core/scheme/scheme.h"
#include "core/train/first_not_finite.h"
#include "core/train/model_passes.h"
#include "core/train/own_faults.h"
#include "core/train/parameter_comparison.h"
#include "core/train/pipeline_step.h"
#include "core/train/run_checkpoints.h"
#include "core/train/running_statistics.h"
#include "core/train/step_validation.h"

namespace ringside {

/// The trainer's report after every step.
struct Progress {
  std::int64_t step = 0;  // number of steps done
  double loss = 0;        // this rank's share of the loss
  double seconds = 0;     // duration of the last step
  double compute_s = 0;   // computation in a step a few steps before; 0: not known yet
  /// This rank's share of the held-out loss; present if the model was evaluated after this step.
  std::optional<LossValue> held_out;
};

Fields fields_of(Progress& progress);

/// Trains `model` as the plan says: reads data, runs micro-batches, evaluates, and records figures.
/// A trainer does the part of one worker; all workers of a run do the same.
class Trainer {
 public:
  /// `held_out` may be null. All arguments must outlive the trainer.
  Trainer(const RankContext& context, Model& model, SyncScheme& scheme, const Loader& training,
          const Loader* held_out);

  /// Blocks until the last step is done, and the last checkpoint written. Begins with the step
  /// after RunPlan::resume, if the plan has one. Throws Error that names the step if a loss is not
  /// finite and the step is not skipped (train.skip_not_finite), and every error of the scheme.
  RankRecord run(const std::function<void(const Progress&)>& progress);

 private:
  /// Returns this rank's share of the loss, one number for each micro-batch of the assignment: 0
  /// for one that is not finite in a step that is skipped. In a pipeline the ranks without the last
  /// stage have none.
  std::vector<double> train_step(const StepAssignment& assignment);
  /// The update of step `step` is final, and no communication that it began is in flight. Blocks.
  void drain(std::int64_t step);
  /// In a pipeline, when forward of step `step` has begun: false if it has to begin anew, because
  /// the update before it was put right.
  bool may_go_on(std::int64_t step);
  /// Throws the Error of a step that may not be skipped. `loss` is that of this rank.
  [[noreturn]] void fail_not_finite(std::int64_t step, double loss);
  void add_losses(const StepAssignment& assignment, const std::vector<double>& losses,
                  RankRecord& record);
  /// The losses of the assignment's micro-batches, whose forward and backward it enqueues.
  std::vector<Loss> run_micro_batches(const StepAssignment& assignment);
  /// Of the scheme, and of the borders between stages.
  Traffic traffic() const;
  bool evaluated_after(std::int64_t step) const;
  /// Whether the step ends with SyncScheme::drain(), after which no communication is in flight.
  /// This is so for the last warm-up step, the last step, and every step before an evaluation or a
  /// checkpoint. So N measured steps contain the communication of exactly N steps.
  bool drains_after(std::int64_t step) const;
  /// Returns this rank's contribution to the held-out loss, by micro-batch of the assignment.
  std::vector<LossValue> evaluate(const StepAssignment& assignment);
  /// Evaluates the model; adds the time and the traffic of the evaluation to the record.
  std::vector<LossValue> evaluate(const StepAssignment& assignment, RankRecord& record);
  /// Adds the hashes of the whole model's parameters at the end to the record, if this rank sees
  /// them (core/train/whole_model.h).
  void note_parameters(RankRecord& record);
  /// SyncScheme::kept(), as elements of the whole model.
  std::vector<std::pair<std::int64_t, std::int64_t>> kept_of_model() const;

  const RankContext& context_;
  Model& model_;
  SyncScheme& scheme_;
  const Loader& training_;
  const Loader* held_out_;
  LossScale loss_scale_;
  RunningStatistics statistics_;
  RunCheckpoints checkpoints_;
  OwnFaults faults_;
  ModelPasses passes_;
  std::optional<PipelineStep> pipeline_;  // of a rank that has some stages of the model
  ParameterComparison comparison_;
  StepValidation validation_;
  FirstNotFinite first_not_finite_;
};

}  // namespace ringside
