#include "ps/schemes/consistency_plan.h"

#include "core/base/error.h"
#include "core/optim/optimizer.h"

namespace ringside::ps {
namespace {

/// How errors call the consistency.
std::string name_in_errors(const PsOptions& options) {
  if (options.consistency == Consistency::bsp)
    return fmt::format("scheme.ps.backup_workers = {}", options.backup_workers);
  return fmt::format("scheme.ps.consistency = '{}'", name_of(options.consistency));
}

}  // namespace

void check_consistency(const PsOptions& options, const RunPlan& plan) {
  if (options.staleness_bound < 0 || options.staleness_bound > 1000)
    throw Error("scheme.ps.staleness_bound = {} must lie between 0 and 1000",
                options.staleness_bound);
  if (options.backup_workers < 0 || options.backup_workers >= plan.world)
    if (options.backup_workers != 0)
      throw Error(
          "scheme.ps.backup_workers = {}: at least one of {} workers must not be a backup; lower "
          "it",
          options.backup_workers, plan.world);
  if (options.backup_workers > 0 && options.consistency != Consistency::bsp)
    throw Error("scheme.ps.backup_workers = {} goes with consistency 'bsp' alone, not with '{}'",
                options.backup_workers, name_of(options.consistency));
  if (options.consistency != Consistency::asp) {
    if (options.staleness_lr != StalenessLr::none)
      throw Error("scheme.ps.staleness_lr = '{}' goes with consistency 'asp' alone, not with '{}'",
                  name_of(options.staleness_lr), name_of(options.consistency));
    if (options.equal_steps)
      throw Error(
          "scheme.ps.equal_steps: with consistency '{}' all workers do equally many steps anyway; "
          "leave it out",
          name_of(options.consistency));
  }
  if (promise_of(options) == Promise::same_run) return;

  const std::string name = name_in_errors(options);
  if (has_fp16_gradients(plan.train))
    throw Error(
        "{}: whether fp16 gradients overflow is known only of all gradients of a step together; "
        "set train.precision = \"bf16\"",
        name);
  if (plan.optimizer.clip_norm > 0)
    throw Error(
        "{}: the norm of the whole gradient is not defined where ranges are updated by themselves; "
        "leave optimizer.clip_norm = {} out",
        name, plan.optimizer.clip_norm);
  if (rounds_of(plan.optimizer, parameter_dtype(plan.train)) > 0)
    throw Error(
        "{}: optimizer '{}' needs sums over the whole model before an update; choose 'adamw' or "
        "'sgd'",
        name, plan.optimizer.kind);
  if (plan.train.reduce == Reduce::every)
    throw Error("{}: a worker pushes once a step; leave train.reduce = 'every' out", name);
  if (plan.model.batch_norm_group > 1)
    throw Error(
        "{}: workers that do not wait for each other share no batch norms; leave "
        "model.batch_norm_group = {} out",
        name, plan.model.batch_norm_group);
  if (plan.train.shares != Shares::equal)
    throw Error("{}: workers have equal shares of a step; leave train.shares at 'equal'", name);
  if (plan.data.kind == "synthetic-lengths" && options.backup_workers > 0)
    throw Error("{}: the samples of an update have to be of one length", name);
}

int expendable_workers(const PsOptions& options, int world) {
  if (promise_of(options) == Promise::same_run) return 0;
  return options.backup_workers > 0 ? static_cast<int>(options.backup_workers) : world - 1;
}

std::int64_t gradient_batch(const RunPlan& plan, int workers, const ConsistencyRules& rules) {
  const std::int64_t own = plan.train.global_batch / workers;
  if (rules.consistency == Consistency::asp) return own;
  return own * (workers - rules.backup_workers);
}

}  // namespace ringside::ps
