// The workers of "ps" that do not wait for each other in every step.
#include <optional>

#include "core/plan/worlds.h"
#include "ps/schemes/consistency_plan.h"
#include "ps/schemes/ps_worker.h"
#include "ps/schemes/worker_course.h"

namespace ringside::ps {
namespace {

/// Workers may hold different values: asp, ssp, and bsp with backup workers.
class FreePs : public PsWorker {
 public:
  using PsWorker::PsWorker;

  /// Workers begin together: one that starts sooner should not train alone for a while. A process
  /// that takes a seat later reads all values, and begins with the steps that come next there.
  void attach(Model& model) override {
    PsWorker::attach(model);
    if (process_in_seat(context().plan) == 0)
      client().sum({});
    else
      join();
    if (!over_) course_.emplace(context(), client(), !shares_steps(), 1);
  }

  bool says_when_to_save() const override { return true; }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (over_) return {};
    auto [steps, saves] = course_->next(begun_ + done);
    if (saves) return saves;
    if (steps == 0) return {};
    return assignment(done);
  }

  std::int64_t gradient_batch() const override {
    return ringside::ps::gradient_batch(context().plan, context().plan.world, rules_of(options()));
  }
  int own_replicas() const override { return 1; }

  void visit_parameters(const ParameterVisitor& visit) override {
    if (!finished_) {
      finished_ = true;
      client().finish();
      if (client().worker() == 0) link().peek();
      client().drain();
    }
    if (client().worker() == 0) link().visit(visit);
  }

 protected:
  /// The next assignment of a process that has done so many.
  StepAssignment assignment(std::int64_t done) const {
    return {.step = begun_ + done, .micro_batches = context().plan.train.accumulation};
  }
  bool is_over() const { return over_; }
  /// Between two steps a worker may have older values than servers, which may hold these too.
  ReplicaLink::OwnValues own_values() const override {
    return {true, false, PsWorker::own_values().shown || options().delay_compensation > 0};
  }

 private:
  /// The run ends after a number of steps of any workers.
  bool shares_steps() const {
    return options().consistency == Consistency::asp && !options().equal_steps;
  }

  void join() {
    const std::optional<std::int64_t> first = client().join();
    over_ = !first;
    begun_ = first.value_or(0);
    if (over_) return;
    link().read_anew(begun_);
    client().drain();
  }

  std::optional<WorkerCourse> course_;
  std::int64_t begun_ = 0;  // the first step of this process
  bool over_ = false;       // the process came when the run was over
  bool finished_ = false;
};

/// A worker whose gradients came too late goes on with the newest values, so it does fewer steps.
class BackupPs final : public FreePs {
 public:
  using FreePs::FreePs;

  void attach(Model& model) override {
    FreePs::attach(model);
    meetings_.emplace(context(), client());
  }
  std::optional<StepAssignment> next_assignment(std::int64_t done) override {
    if (is_over()) return {};
    number_ = link().newest_version();
    const StepAssignment next = assignment(done);
    if (auto saves = meetings_->before_step(number_, next.step)) return saves;
    if (meetings_->is_over()) return {};
    if (number_ >= context().plan.train.steps) return {};
    return next;
  }
  /// Waits within the step for all values, of which the newest one decides what comes next.
  bool step(const StepInfo& info) override {
    const bool finite = FreePs::step(info);
    client().drain();
    return finite;
  }

 private:
  void push(std::size_t unit, std::int64_t) override { link().push_pull(unit, number_); }

  std::optional<WorkerMeetings> meetings_;
  std::int64_t number_ = 0;  // of the step's gradients: the newest version read of any range
};

}  // namespace

std::unique_ptr<SyncScheme> make_free_ps(const RankContext& context, const PsOptions& options) {
  if (options.backup_workers > 0) return std::make_unique<BackupPs>(context, options);
  return std::make_unique<FreePs>(context, options);
}

}  // namespace ringside::ps
