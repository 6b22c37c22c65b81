#include "experiments/runner/plan/elastic.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/plan/faults.h"
#include "experiments/runner/plan/one_run.h"

namespace ringside::runner {
namespace {

/// Why the world of the run cannot change; empty if it can.
std::string obstacle(const RunPlan& plan, const SchemeInfo& row) {
  if (plan.cluster) return "no worker of a simulated run comes or goes";
  if (!device_traits(plan.device.kind).on_processor)
    return "workers on GPUs stay as long as the run";
  if (plan.program) return "ranks of another program stay as long as the run";
  if (plan.promise == Promise::replayed) {
    if (!row.seats_are_taken_again || !row.seats_are_taken_again(plan.options))
      return fmt::format(
          "workers of scheme {} do not wait for each other; their run goes on without those that "
          "end, but nobody takes their place",
          plan.scheme);
    return {};
  }
  if (!row.resumes || !row.resumes(plan.options))
    return fmt::format("ranks of scheme {} do not show all of their state", plan.scheme);
  if (row.own_replicas && (!row.meets_every || row.meets_every(plan.options) == 0))
    return fmt::format("replicas of scheme {} never are all equal", plan.scheme);
  return {};
}

/// Throws Error if the run cannot go on without hosts that are gone: in a job its world changes by
/// a restart from a checkpoint.
void check_in_job(const RunPlan& plan, const SchemeInfo& row, const std::string& given) {
  if (plan.promise == Promise::replayed)
    throw Error(
        "{}: workers of scheme {} do not wait for each other, and in a job on several hosts their "
        "run goes on without those that are gone, but at no other world; leave it out, or compare "
        "without this scheme",
        given, plan.scheme);
  for (const std::string& text : plan.faults.plan)
    if (const Fault::Kind kind = fault_from(text).kind;
        kind == Fault::Kind::add || kind == Fault::Kind::remove)
      throw Error(
          "faults.plan: '{}': in a job on several hosts the world changes only when a host is "
          "gone; leave it out",
          text);
  const CheckpointConfig& checkpoint = plan.checkpoint;
  if (!row.own_replicas || checkpoint.path.empty() || checkpoint.every == 0) return;
  if (const std::int64_t meets = row.meets_every(plan.options); checkpoint.every % meets != 0)
    throw Error(
        "{}: replicas of scheme {} are equal after every {} steps, and the world changes at a "
        "checkpoint; set checkpoint.every = {} to a multiple of that",
        given, plan.scheme, meets, checkpoint.every);
}

/// The run at another world; none if it cannot have that.
std::optional<RunPlan> plan_at(ExperimentConfig config, const SchemeInfo& row, int world,
                               const std::vector<MeasuredSpeeds>& measured) {
  config.faults = {};
  if (config.train.shares == Shares::equal && config.train.global_batch % world != 0) {
    config.train.shares = Shares::given;
    for (int worker = 0; worker < world; ++worker)
      config.train.weights.push_back(config.train.global_batch / world +
                                     (worker < config.train.global_batch % world ? 1 : 0));
  }
  try {
    return plan_run(config, row, world, 0, measured);
  } catch (const Error&) {
    return {};
  }
}

/// Of a run whose seats are taken again (core/plan/worlds.h): as many workers may be away as the
/// smallest world allows.
void plan_seats(RunPlan& plan, int least, const std::string& given) {
  const auto may_leave = std::ranges::count_if(
      plan.ranks, [&](const RankPlan& rank) { return rank.worker > 0 && rank.server < 0; });
  plan.expendable = std::min({plan.expendable, plan.world - least, static_cast<int>(may_leave)});
  if (plan.expendable == 0)
    throw Error(
        "{}: no worker of the run can leave: worker 0, which reports the parameters, and workers "
        "with a server in their process stay; set scheme.ps.placement = \"dedicated\"",
        given);
  for (const std::string& text : plan.faults.plan) {
    const Fault fault = fault_from(text);
    if (fault.kind == Fault::Kind::remove && !may_be_lost(plan, struck_rank(plan, fault)))
      throw Error(
          "faults.plan: '{}': worker 0, which reports the parameters, and workers with a server in "
          "their process do not leave",
          text);
  }
}

std::int64_t micro_batches_of_step(const RunPlan& plan) {
  return plan.world * plan.train.accumulation;
}

}  // namespace

void plan_worlds(RunPlan& plan, const ExperimentConfig& config, const SchemeInfo& row,
                 const std::vector<MeasuredSpeeds>& measured) {
  const auto least = static_cast<int>(config.faults.least_world);
  if (least == 0 || least >= plan.world) return;
  const std::string given = fmt::format("faults.least_world = {}", least);
  if (const std::string why = obstacle(plan, row); !why.empty())
    throw Error("{}: {}; leave it out, or compare without this scheme", given, why);
  if (config.in_job) check_in_job(plan, row, given);
  if (plan.promise == Promise::replayed) return plan_seats(plan, least, given);
  if (config.train.batch_per_rank > 0)
    throw Error(
        "{}: the global batch of the run stays the same; set train.global_batch in place of "
        "train.batch_per_rank",
        given);
  if (row.own_replicas && !config.in_job) {
    const std::int64_t meets = row.meets_every(plan.options);
    std::int64_t& every = plan.checkpoint.memory_every;
    every = (every + meets - 1) / meets * meets;
  }
  std::vector<RunPlan> worlds;
  const std::size_t servers = plan.ranks.size() - static_cast<std::size_t>(plan.world);
  const bool keeps_micro_batches = find_model(plan.model.kind).batch_norms;
  for (int world = least; world < plan.world; ++world) {
    std::optional<RunPlan> other = plan_at(config, row, world, measured);
    if (!other) continue;
    // A restart starts servers anew too.
    if (!config.in_job && other->ranks.size() - static_cast<std::size_t>(world) != servers)
      continue;
    // Running statistics belong to micro-batches.
    if (keeps_micro_batches && micro_batches_of_step(*other) != micro_batches_of_step(plan))
      continue;
    worlds.push_back(std::move(*other));
  }
  if (worlds.empty())
    throw Error(
        "{}: the run can have no world from {} to {} but the largest one, with its {} samples a "
        "step{}; choose another train.global_batch or train.micro_batch",
        given, least, plan.world, plan.train.global_batch,
        keeps_micro_batches ? " in as many micro-batches" : "");
  worlds.push_back(plan);
  plan.worlds = std::move(worlds);
  if (config.in_job) return;
  plan.least_world = plan.worlds.front().world;
  plan.most_world = plan.world;
}

}  // namespace ringside::runner
