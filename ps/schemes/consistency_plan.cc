#include "ps/schemes/consistency_plan.h"

#include <cmath>

#include "core/base/error.h"
#include "core/optim/optimizer.h"
#include "core/scheme/plain_scheme.h"

namespace ringside::ps {
namespace {

/// The name of the consistency in errors.
std::string name_in_errors(const PsOptions& options) {
  if (options.consistency == Consistency::bsp)
    return fmt::format("scheme.ps.backup_workers = {}", options.backup_workers);
  return fmt::format("scheme.ps.consistency = '{}'", name_of(options.consistency));
}

void check_asp(const PsOptions& options) {
  if (!(options.delay_compensation >= 0 && std::isfinite(options.delay_compensation)))
    throw Error("scheme.ps.delay_compensation = {} must be a number from 0 on",
                options.delay_compensation);
  if (options.consistency == Consistency::asp) return;
  if (options.staleness_lr != StalenessLr::none)
    throw Error("scheme.ps.staleness_lr = '{}' goes with consistency 'asp' alone, not with '{}'",
                name_of(options.staleness_lr), name_of(options.consistency));
  if (options.delay_compensation != 0)
    throw Error(
        "scheme.ps.delay_compensation = {} goes with consistency 'asp' alone, not with '{}'",
        options.delay_compensation, name_of(options.consistency));
}

void check_easgd(const PsOptions& options, const RunPlan& plan) {
  const std::int64_t period = options.communication_period;
  if (options.consistency != Consistency::easgd) {
    if (options.moving_rate != 0 || period != PsOptions{}.communication_period)
      throw Error(
          "scheme.ps.communication_period = {}, moving_rate = {}: they go with consistency 'easgd' "
          "alone, not with '{}'; leave them out",
          period, options.moving_rate, name_of(options.consistency));
    return;
  }
  if (!(options.moving_rate >= 0 && options.moving_rate <= 1))
    throw Error("scheme.ps.moving_rate = {} must lie between 0 and 1; 0 stands for 0.9 / workers",
                options.moving_rate);
  if (period < 1 || plan.train.steps % period != 0)
    throw Error(
        "scheme.ps.communication_period = {}: train.steps = {} must be a multiple of it, because a "
        "run ends with exchanges; change one of them",
        period, plan.train.steps);
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
  if (!is_asynchronous(options.consistency) && options.equal_steps)
    throw Error(
        "scheme.ps.equal_steps: with consistency '{}' all workers do equally many steps anyway; "
        "leave it out",
        name_of(options.consistency));
  check_asp(options);
  check_easgd(options, plan);
  if (is_synchronous(options)) return;

  const std::string name = name_in_errors(options);
  if (options.pull == Pull::barrier)
    throw Error(
        "{}: there is no point at which all workers have pushed; leave scheme.ps.pull at "
        "'overlapped'",
        name);
  if (has_fp16_gradients(plan.train))
    throw Error(
        "{}: whether fp16 gradients overflow is known only of all gradients of a step together; "
        "set train.precision = \"bf16\"",
        name);
  refuse_skipped_steps(plan, name, "whether a step is finite is known only of all its gradients");
  // A worker of easgd has an optimizer of its own, with the whole gradient of its replica.
  const bool by_ranges = options.consistency != Consistency::easgd;
  if (by_ranges && plan.optimizer.clip_norm > 0)
    throw Error(
        "{}: the norm of the whole gradient is not defined where ranges are updated by themselves; "
        "leave optimizer.clip_norm = {} out",
        name, plan.optimizer.clip_norm);
  if (by_ranges && rounds_of(plan.optimizer, skips_steps(plan.train)) > 0)
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
  if (is_synchronous(options)) return 0;
  return options.backup_workers > 0 ? static_cast<int>(options.backup_workers) : world - 1;
}

std::int64_t gradient_batch(const RunPlan& plan, int workers, const ConsistencyRules& rules) {
  const std::int64_t own = plan.train.global_batch / workers;
  if (is_asynchronous(rules.consistency)) return own;
  return own * (workers - rules.backup_workers);
}

}  // namespace ringside::ps
