#include "experiments/plan/planner.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/plan/places.h"
#include "core/scheme/single.h"
#include "experiments/plan/checks.h"
#include "experiments/registry/registry.h"

namespace ringside {
namespace {

constexpr std::string_view reference_scheme = "single";

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Options options_of(const ExperimentConfig& config, const SchemeRow& row) {
  const auto given = config.scheme_options.find(std::string(row.name));
  return given == config.scheme_options.end() ? row.defaults : given->second;
}

/// The number of ranks whose gradients are added up: the workers, or the replicas that `single`
/// stands for.
std::int64_t replicas_of(const RunPlan& plan) {
  return plan.scheme == reference_scheme ? plan.options.as<SingleOptions>().replicas : plan.world;
}

/// How many micro-batches each of `ranks` ranks computes in a step. `who` names the ranks in
/// errors.
std::int64_t micro_batches(const TrainConfig& train, std::int64_t ranks, const std::string& who) {
  if (train.global_batch % ranks != 0)
    throw Error("train.global_batch = {} is not divisible by {}; choose a multiple of {}",
                train.global_batch, who, ranks);
  const std::int64_t share = train.global_batch / ranks;
  const std::int64_t fitting =
      train.micro_batch > 0 ? ceil_divide(share, train.micro_batch) : std::int64_t{1};
  const std::int64_t count = std::max(train.accumulation, fitting);
  if (count > share || share % count != 0)
    throw Error(
        "train.global_batch = {} gives each rank of {} {} samples, which {} micro-batches do not "
        "divide evenly; choose another train.global_batch, train.micro_batch or "
        "train.accumulation",
        train.global_batch, who, share, count);
  return count;
}

void place_ranks(RunPlan& plan, const Servers& servers) {
  if (!servers.beside && servers.count > most_ranks - plan.world)
    throw Error("scheme {}: {} workers and {} servers are more than {} ranks; ask for fewer",
                plan.scheme, plan.world, servers.count, most_ranks);
  plan.servers = servers.count;
  for (int worker = 0; worker < plan.world; ++worker) plan.ranks.push_back({worker, worker, -1});
  if (servers.beside && servers.count > plan.world)
    throw Error(
        "scheme {}: {} servers do not fit beside {} workers; ask for at most one per worker",
        plan.scheme, servers.count, plan.world);
  for (int server = 0; server < servers.count; ++server) {
    if (servers.beside)
      plan.ranks[static_cast<std::size_t>(server)].server = server;
    else
      plan.ranks.push_back({plan.world + server, -1, server});
  }
}

/// Gives every rank its kind of device, the number of its device within that kind, and its
/// environment.
void give_devices(RunPlan& plan, const Servers& servers) {
  if (servers.beside && !servers.device.empty())
    throw Error(
        "scheme {}: servers beside workers use the device of their worker; leave server_device "
        "out, or set placement to 'dedicated'",
        plan.scheme);
  if (plan.cluster && !servers.device.empty())
    throw Error(
        "scheme {}: simulated servers run on the hosts of the cluster anyway; leave "
        "server_device out",
        plan.scheme);
  std::map<std::string, int> counts;  // kept, because looking for GPUs takes a while
  int given = 0;
  for (RankPlan& rank : plan.ranks) {
    if (rank.worker < 0 && servers.device != plan.device.kind) rank.device = servers.device;
    const std::string& kind = device_kind(plan, rank);
    if (!counts.contains(kind)) counts[kind] = find_device(kind).count();
    if (const int count = counts[kind]; count > 0) rank.ordinal = given++ % count;
  }
  for (RankPlan& rank : plan.ranks)
    rank.environment = find_device(device_kind(plan, rank)).environment(plan, rank.rank);
}

SumTree sum_tree(const RunPlan& plan) {
  const std::int64_t together = plan.model.batch_norm_group;
  const std::int64_t groups = replicas_of(plan) / together;
  const std::int64_t all = plan.train.accumulation * plan.world / together;
  const double lr = scaled_lr(plan.optimizer, replicas_of(plan));
  if (groups == 1 || groups == all) return {1, all, lr};
  return {groups, all / groups, lr};
}

/// Checks that batch norms over a group of ranks can compute what one rank with all their samples
/// would. A group size above the world is lowered to the world.
void check_batch_norm_groups(RunPlan& plan) {
  std::int64_t& group = plan.model.batch_norm_group;
  require_at_least("model.batch_norm_group", group, 1);
  if (group > 1 && !find_model(plan.model.kind).batch_norms)
    throw Error("model.batch_norm_group = {}: model '{}' has no batch norms; leave it out", group,
                plan.model.kind);
  group = std::min<std::int64_t>(group, plan.world);
  if (plan.world % group != 0)
    throw Error("model.batch_norm_group = {} does not divide world {}; choose a divisor", group,
                plan.world);
  if (group > 1 && plan.train.accumulation > 1)
    throw Error(
        "model.batch_norm_group = {} joins one micro-batch of each rank, but a rank has {} "
        "micro-batches in a step; raise train.micro_batch to {} and leave train.accumulation at 1",
        group, plan.train.accumulation, plan.train.micro_batch * plan.train.accumulation);
}

RunPlan plan_run(const ExperimentConfig& config, const SchemeRow& row, int world, int repeat) {
  RunPlan plan;
  plan.experiment = config.name;
  plan.scheme = row.name;
  plan.options = options_of(config, row);
  plan.promise = row.promise;
  plan.world = world;
  plan.repeat = repeat;
  plan.model = config.model;
  plan.data = config.data;
  plan.train = config.train;
  if (row.max_world == 1)
    plan.train.reduce = Reduce::last;
  else if (plan.train.reduce == Reduce::by_scheme)
    plan.train.reduce = row.reduces_each_micro_batch ? Reduce::every : Reduce::last;
  plan.optimizer = config.optimizer;
  plan.device = config.device;
  plan.sim = config.sim;
  plan.cluster = config.cluster;
  row.check(plan.options, plan);
  plan.id = fmt::format("{}-w{}-r{}", plan.scheme, world, repeat);

  const std::int64_t ranks = replicas_of(plan);
  const bool replicas = ranks != world;
  plan.label = replicas ? fmt::format("{} x{}", plan.scheme, ranks) : plan.scheme;
  if (replicas) require_at_least("scheme.single.replicas", ranks, 1);
  const std::string who = replicas ? fmt::format("{} replicas (scheme {})", ranks, plan.scheme)
                                   : fmt::format("world {} (scheme {})", ranks, plan.scheme);
  const std::int64_t each = micro_batches(config.train, ranks, who);
  plan.train.accumulation = each * (replicas ? ranks : 1);
  plan.train.micro_batch = config.train.global_batch / (ranks * each);
  check_batch_norm_groups(plan);
  plan.sums = sum_tree(plan);
  const Servers servers = row.servers(plan.options, world);
  place_ranks(plan, servers);
  give_devices(plan, servers);
  if (plan.cluster) {
    check_places(plan);
    check_products(plan);
  }
  return plan;
}

/// Plans `single` over the micro-batches of all ranks of a run at `world`, with the learning rate
/// of that run. Ranks that share batch norms become one replica with a larger micro-batch.
RunPlan plan_reference(const ExperimentConfig& config, int world) {
  ExperimentConfig changed = config;
  const std::int64_t group = std::min<std::int64_t>(config.model.batch_norm_group, world);
  changed.train.micro_batch *= group;
  if (group > 1) {  // then `single` has fewer replicas than the run has ranks
    changed.optimizer.lr = scaled_lr(config.optimizer, world);
    changed.optimizer.lr_scaling = LrScaling::none;
  }
  changed.scheme_options[std::string(reference_scheme)] = SingleOptions{.replicas = world / group};
  RunPlan plan = plan_run(changed, find_scheme(reference_scheme), 1, 0);
  plan.purpose = Purpose::reference;
  plan.id = fmt::format("{}-x{}-r0", reference_scheme, world / group);
  if (group > 1) {
    plan.id = fmt::format("{}-x{}-g{}-r0", reference_scheme, world / group, group);
    plan.label = fmt::format("{} x{} (norms of {})", reference_scheme, world / group, group);
  }
  return plan;
}

std::vector<int> worlds_of(const SchemeRow& row, const std::vector<std::int64_t>& asked) {
  std::vector<int> worlds;
  for (const std::int64_t world : asked)
    if (row.max_world == 0 || world <= row.max_world) worlds.push_back(static_cast<int>(world));
  if (worlds.empty()) worlds.push_back(row.max_world);
  return worlds;
}

/// The references that are needed but that are not among `runs`.
std::vector<RunPlan> missing_references(const ExperimentConfig& config,
                                        const std::vector<RunPlan>& runs) {
  std::vector<SumTree> there;
  for (const RunPlan& run : runs)
    if (run.scheme == reference_scheme) there.push_back(run.sums);
  std::vector<RunPlan> references;
  for (const RunPlan& run : runs) {
    if (!computes(run)) continue;  // without results a run needs no reference
    if (std::find(there.begin(), there.end(), run.sums) != there.end()) continue;
    there.push_back(run.sums);
    references.push_back(plan_reference(config, run.world));
  }
  return references;
}

/// Plans `single` with the threads of all ranks of the largest world together. Returns nothing if
/// `single` has as many threads anyway or was not asked for, if compare.all_cores is false, or if
/// the device is not the CPU.
std::optional<RunPlan> plan_on_all_cores(const ExperimentConfig& config,
                                         const std::vector<RunPlan>& runs, int cores, int repeat) {
  int largest_world = 1;
  bool with_single = false;
  for (const RunPlan& run : runs) {
    largest_world = std::max(largest_world, run.world);
    with_single |= run.scheme == reference_scheme;
  }
  ExperimentConfig changed = config;
  changed.device.threads = std::min<std::int64_t>(cores, largest_world * config.device.threads);
  if (!config.compare.all_cores || config.device.kind != "cpu" || !with_single ||
      changed.device.threads <= config.device.threads)
    return {};
  RunPlan plan = plan_run(changed, find_scheme(reference_scheme), 1, repeat);
  plan.purpose = Purpose::all_cores;
  plan.id = fmt::format("{}-t{}-r{}", plan.scheme, changed.device.threads, repeat);
  plan.label = fmt::format("{} ({} threads)", plan.label, changed.device.threads);
  return plan;
}

/// Gives each run of one repeat its line in the table and its place in a random order of the runs.
/// Places are counted from `first` on.
void shuffle(std::vector<RunPlan>& runs, int first) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunPlan& run = runs[i];
    run.line = static_cast<int>(i);
    run.place = first + static_cast<int>(permuted(i, runs.size(),
                                                  static_cast<std::uint64_t>(run.train.seed),
                                                  static_cast<std::uint64_t>(run.repeat)));
  }
}

/// Throws Error if two runs have the same id, because files and rows are found by the id of their
/// run.
void check_ids(const std::vector<RunPlan>& runs) {
  std::set<std::string> ids;
  for (const RunPlan& run : runs)
    if (!ids.insert(run.id).second)
      throw Error("two runs would be called {}; this is a mistake of the planner, please report it",
                  run.id);
}

}  // namespace

std::vector<RunPlan> plan_comparison(const ExperimentConfig& config, int cores) {
  check_config(config);
  check_compare(config.compare);
  const CompareConfig& compare = config.compare;

  std::vector<RunPlan> runs, all;
  for (int repeat = 0; repeat < compare.repeats; ++repeat) {
    std::vector<RunPlan> of_repeat;
    for (const std::string& scheme : compare.schemes) {
      const SchemeRow& row = find_scheme(scheme);
      for (const int world : worlds_of(row, compare.worlds))
        of_repeat.push_back(plan_run(config, row, world, repeat));
    }
    if (repeat == 0) all = missing_references(config, of_repeat);
    if (const auto plan = plan_on_all_cores(config, of_repeat, cores, repeat))
      of_repeat.push_back(*plan);
    shuffle(of_repeat, static_cast<int>(all.size() + runs.size()));
    runs.insert(runs.end(), of_repeat.begin(), of_repeat.end());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].place = static_cast<int>(i);
    all[i].line = static_cast<int>(runs.size() + i);
  }
  all.insert(all.end(), runs.begin(), runs.end());
  check_ids(all);
  return all;
}

RunPlan plan_definition(const RunPlan& run) {
  RunPlan plan = run;
  plan.purpose = Purpose::reference;
  plan.defines = run.world;
  plan.world = 1;
  plan.repeat = 0;
  plan.train.accumulation *= run.world;
  plan.ranks.assign(1, run.ranks[0]);
  // The rank has the replicas of all workers in its memory.
  if (plan.cluster) plan.cluster->device.memory_gb *= run.world;
  plan.id = fmt::format("{}-x{}-definition-r0", run.scheme, run.world);
  plan.label = fmt::format("{} x{} (definition)", run.label, run.world);
  return plan;
}

RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world) {
  check_config(config);
  const SchemeRow& row = find_scheme(scheme);
  check_world("world", world);
  if (row.max_world > 0 && world > row.max_world)
    throw Error("scheme {} runs at world {} at most, not at {}", scheme, row.max_world, world);
  return plan_run(config, row, world, 0);
}

}  // namespace ringside
