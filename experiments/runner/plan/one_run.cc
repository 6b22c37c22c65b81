#include "experiments/runner/plan/one_run.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/plan/faults.h"
#include "core/plan/host_workers.h"
#include "core/plan/mesh.h"
#include "core/plan/places.h"
#include "core/plan/same_run.h"
#include "core/plan/saved_steps.h"
#include "core/plan/slices.h"
#include "core/scheme/local_replicas.h"
#include "core/scheme/plain_scheme.h"
#include "core/scheme/single.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/elastic.h"
#include "experiments/runner/plan/mesh_checks.h"
#include "experiments/runner/plan/mesh_plan.h"
#include "experiments/runner/plan/shares.h"
#include "experiments/runner/plan/simulated.h"
#include "experiments/runner/registry/model_borders.h"
#include "experiments/runner/registry/plugins.h"
#include "experiments/runner/registry/rank_devices.h"

namespace ringside::runner {
namespace {

/// The number of ranks whose gradients are added up: the workers, or the replicas that `single`
/// stands for.
std::int64_t replicas_of(const RunPlan& plan) {
  return plan.scheme == reference_scheme ? plan.options.as<SingleOptions>().replicas : plan.world;
}

/// The training of `ranks` ranks, with their global batch.
TrainConfig train_of(const ExperimentConfig& config, std::int64_t ranks, const std::string& who) {
  TrainConfig train = config.train;
  if (train.batch_per_rank == 0) return train;
  if (train.batch_per_rank > most_samples / ranks)
    throw Error(
        "train.batch_per_rank = {} gives {} a global batch of more than {} samples; lower it",
        train.batch_per_rank, who, most_samples);
  train.global_batch = train.batch_per_rank * ranks;
  return train;
}

void place_ranks(RunPlan& plan, const Servers& servers) {
  const int dedicated = servers.count - servers.colocated;
  if (dedicated > most_ranks - plan.world)
    throw Error("scheme {}: {} workers and {} servers are more than {} ranks; ask for fewer",
                plan.scheme, plan.world, dedicated, most_ranks);
  plan.servers = servers.count;
  for (int worker = 0; worker < plan.world; ++worker) plan.ranks.push_back({worker, worker, -1});
  if (servers.colocated > plan.world)
    throw Error(
        "scheme {}: {} servers do not fit beside {} workers; ask for at most one per worker",
        plan.scheme, servers.colocated, plan.world);
  const std::vector<int> colocated =
      workers_with_servers(servers.colocated, plan.world, servers.group);
  for (int server = 0; server < servers.colocated; ++server)
    plan.ranks[static_cast<std::size_t>(colocated[static_cast<std::size_t>(server)])].server =
        server;
  for (int i = 0; i < dedicated; ++i)
    plan.ranks.push_back({plan.world + i, -1, servers.colocated + i});
}

/// Gives every rank its kind of device, and, unless a job does so, the number of its device within
/// that kind, and its environment.
void give_devices(RunPlan& plan, const Servers& servers, bool in_job) {
  if (servers.colocated == servers.count && !servers.device.empty())
    throw Error(
        "scheme {}: colocated servers use the device of their worker; leave server_device "
        "out, or set placement to 'dedicated'",
        plan.scheme);
  if (plan.cluster && !servers.device.empty())
    throw Error(
        "scheme {}: simulated servers run on the hosts of the cluster anyway; leave "
        "server_device out",
        plan.scheme);
  for (RankPlan& rank : plan.ranks) {
    if (rank.worker < 0 && servers.device != plan.device.kind) rank.device = servers.device;
    find_device(device_kind(plan, rank)).check();
  }
  if (in_job && !plan.cluster) return;
  std::map<std::string, std::vector<std::string>> seen;  // looking for GPUs takes a while
  number_devices(plan, [&](const std::string& kind, int) -> const std::vector<std::string>& {
    if (!seen.contains(kind)) seen[kind] = find_device(kind).devices();
    return seen[kind];
  });
  set_environments(plan);
}

bool is_own(SumOrder order) { return order == SumOrder::own || order == SumOrder::own_by_messages; }

SumTree sum_tree(const RunPlan& plan, SumOrder order) {
  const std::int64_t groups = replicas_of(plan);
  const std::int64_t all = plan.train.accumulation * plan.world;
  const double lr = scaled_lr(plan.optimizer, replicas_of(plan));
  SumTree tree{.lr = lr, .samples = plan.train.weights};
  if (is_own(order)) {
    tree.groups = plan.world;
    tree.micro_batches = plan.train.accumulation;
    tree.own_order = true;
    tree.each_micro_batch = plan.train.reduce == Reduce::every && plan.train.accumulation > 1;
  } else {
    // If gradients are converted before they are summed over ranks, it matters which are of one
    // rank.
    const bool sequence = groups == all && !converts_gradients(plan.train);
    tree.groups = sequence ? 1 : groups;
    tree.micro_batches = all / tree.groups;
    tree.unknown_order = order == SumOrder::unknown;
  }
  return tree;
}

/// Checks that the scheme can convert gradients; a precision that converts nothing becomes `same`.
void check_reduce_precision(TrainConfig& train, const SchemeInfo& row) {
  if (!converts_gradients(train)) {
    train.reduce_precision = ReducePrecision::same;
    return;
  }
  const std::string given =
      fmt::format("train.reduce_precision = '{}'", name_of(train.reduce_precision));
  if (!row.converts_gradients)
    throw Error(
        "{}: scheme {} moves gradients in the precision of the parameters; leave it out, or "
        "compare without this scheme",
        given, row.name);
  if (parameter_dtype(train) != DType::f32 && reduce_dtype(train) != DType::f32)
    throw Error(
        "{} does not go with train.precision = '{}': they hold other numbers in as many bits; "
        "choose 'same' or 'fp32'",
        given, name_of(train.precision));
}

/// Checks that batch norms over a group of `ranks` ranks can compute what one rank with all their
/// samples would. A group size above that number is lowered to it.
void check_batch_norm_groups(RunPlan& plan, std::int64_t ranks) {
  std::int64_t& group = plan.model.batch_norm_group;
  if (group > 1 && !find_model(plan.model.kind).batch_norms)
    throw Error("model.batch_norm_group = {}: model '{}' has no batch norms; leave it out", group,
                plan.model.kind);
  group = std::min(group, ranks);
  if (ranks % group != 0)
    throw Error("model.batch_norm_group = {} does not divide world {}; choose a divisor", group,
                ranks);
  if (group > 1 && !plan.train.weights.empty())
    throw Error(
        "model.batch_norm_group = {} joins micro-batches of equal size, but train.shares gives "
        "workers {} samples; leave one of the two out",
        group, fmt::join(plan.train.weights, ", "));
  if (const std::int64_t each = plan.train.accumulation * plan.world / ranks; group > 1 && each > 1)
    throw Error(
        "model.batch_norm_group = {} joins one micro-batch of each rank, but a rank has {} "
        "micro-batches in a step; raise train.micro_batch to {} and leave train.accumulation at 1",
        group, each, plan.train.micro_batch * each);
}

void check_optimizer(const OptimizerConfig& optimizer, const SchemeInfo& row) {
  if (row.optimizer.empty()) return;
  if (optimizer.kind != row.optimizer)
    throw Error(
        "optimizer.kind = '{}': scheme {} trains with '{}' alone; set that, or compare without "
        "this "
        "scheme",
        optimizer.kind, row.name, row.optimizer);
  if (optimizer.clip_norm > 0)
    throw Error(
        "optimizer.clip_norm = {}: workers of scheme {} do not sum gradients in every step, so "
        "they "
        "do not know their norm; leave it out",
        optimizer.clip_norm, row.name);
}

void check_recompute(const RunPlan& plan) {
  if (plan.train.recompute != Recompute::attention || find_model(plan.model.kind).attention) return;
  throw Error("train.recompute = 'attention': model '{}' has no attention; choose 'none' or 'full'",
              plan.model.kind);
}

void check_offload(Offload offload, const SchemeInfo& row) {
  if (offload <= row.offloads) return;
  std::vector<std::string_view> able;
  for (const SchemeInfo& other : scheme_rows())
    if (offload <= other.offloads) able.push_back(other.name);
  throw Error(
      "train.offload = '{}': workers of scheme {} have no such thing to offload; leave it out, or "
      "use {}",
      name_of(offload), row.name, one_of(able));
}

void check_checkpoint(const RunPlan& plan, const SchemeInfo& row) {
  if (!writes_checkpoints(plan)) return;
  const std::string asked = plan.cluster
                                ? fmt::format("checkpoint.every = {}", plan.checkpoint.every)
                                : fmt::format("checkpoint.path = '{}'", plan.checkpoint.path);
  if (plan.cluster && plan.cluster->storage.gbs == 0)
    throw Error(
        "{}: cluster {} does not say how fast its machines write; add a table [storage] with gbs "
        "to "
        "its file, or set checkpoint.every = 0",
        asked, plan.cluster->name);
  if (row.resumes && row.resumes(plan.options)) return;
  std::vector<std::string_view> able;
  for (const SchemeInfo& other : scheme_rows())
    if (other.resumes && other.resumes(other.defaults)) able.push_back(other.name);
  throw Error(
      "{}: a run of scheme {}{} cannot go on from a checkpoint, because its ranks do not show all "
      "of "
      "their state; leave it out, or use {}",
      asked, row.name, row.resumes ? " with these options" : "", one_of(able));
}

/// Steps are skipped, and parameters compared, by our own trainer.
void check_detection(const RunPlan& plan, const SchemeInfo& row) {
  if (row.program)
    refuse_skipped_steps(plan, fmt::format("scheme {}", row.name), "another program runs them");
  for (const std::string& text : plan.faults.plan)
    if (const Fault::Kind kind = fault_from(text).kind;
        row.program &&
        (kind == Fault::Kind::hang || kind == Fault::Kind::poison || kind == Fault::Kind::flip))
      throw Error("faults.plan: '{}': another program runs the workers of scheme {}; leave it out",
                  text, row.name);
  if (plan.faults.compare_every == 0) return;
  const std::string given = fmt::format("faults.compare_every = {}", plan.faults.compare_every);
  if (row.program)
    throw Error("{}: another program runs the ranks of scheme {}; leave it out", given, row.name);
  if (row.own_replicas || plan.promise == Promise::replayed)
    throw Error(
        "{}: the parameters of workers of scheme {} differ from each other after a step; leave it "
        "out",
        given, row.name);
  if (row.divides && row.divides(plan.options, plan.world).parameters() > 1)
    throw Error(
        "{}: workers of scheme {} hold a shard of the parameters each, of which there is no copy "
        "to compare; leave it out, or use ddp",
        given, row.name);
}

/// Lets the scheme replace values of options that stand for the hosts of its workers, which must
/// come to the same in every stage of the mesh.
void settle_options(RunPlan& plan, const SchemeInfo& row, const MeshConfig& mesh,
                    const std::vector<int>& hosts) {
  if (!row.settle) return;
  const Options asked = plan.options;
  row.settle(plan.options, hosts_of_stage(hosts, mesh, 0));
  for (int stage = 1; stage < mesh.pipeline; ++stage) {
    Options other = asked;
    row.settle(other, hosts_of_stage(hosts, mesh, stage));
    if (other != plan.options)
      throw Error(
          "mesh.pipeline = {}: workers of stage {} lie on their machines otherwise than those of "
          "stage 0, so that options of scheme {} differ; choose another mesh.innermost",
          mesh.pipeline, stage, row.name);
  }
}

/// The ranks whose gradients are added up, for errors.
std::string name_of_ranks(const RunPlan& plan, const MeshConfig& mesh, std::int64_t ranks) {
  if (mesh.pipeline > 1)
    return fmt::format("{} workers along mesh.data (scheme {})", ranks, plan.scheme);
  if (ranks != plan.world) return fmt::format("{} replicas (scheme {})", ranks, plan.scheme);
  return fmt::format("world {} (scheme {})", ranks, plan.scheme);
}

}  // namespace

const Options& options_of(const ExperimentConfig& config, const SchemeInfo& row) {
  const auto given = config.scheme_options.find(std::string(row.name));
  return given == config.scheme_options.end() ? row.defaults : given->second;
}

RunPlan plan_run(const ExperimentConfig& config, const SchemeInfo& row, int world, int repeat,
                 const std::vector<MeasuredSpeeds>& measured) {
  const MeshConfig mesh = settle_mesh(config.mesh, row, world);
  RunPlan plan;
  plan.experiment = config.name;
  plan.scheme = row.name;
  plan.options = options_of(config, row);
  plan.promise = row.promise(plan.options);
  plan.world = world / static_cast<int>(mesh.pipeline);  // of one stage, until all are laid out
  plan.repeat = repeat;
  plan.model = config.model;
  plan.data = config.data;
  plan.listing.target_kind = config.compare.target_kind;
  plan.listing.target_loss = config.compare.target_loss;
  plan.optimizer = config.optimizer;
  plan.device = config.device;
  plan.sim = config.sim;
  plan.cluster = config.cluster;
  plan.hosts = config.hosts;
  plan.plugins = loaded_plugins();
  plan.checkpoint = config.checkpoint;
  if (plan.cluster) plan.checkpoint.path.clear();  // it writes no files
  plan.faults = config.faults;
  plan.id = fmt::format("{}-w{}-r{}", plan.scheme, world, repeat);

  const std::int64_t ranks = replicas_of(plan);
  const bool replicas = ranks != plan.world;
  plan.listing.label = replicas ? fmt::format("{} x{}", plan.scheme, ranks) : plan.scheme;
  plan.listing.family = plan.listing.label;
  const std::string who = name_of_ranks(plan, mesh, ranks);
  plan.train = train_of(config, ranks, who);
  settle_cluster(plan);
  plan.host_step_us = host_step_us(plan);
  check_optimizer(plan.optimizer, row);
  check_recompute(plan);
  check_offload(plan.train.offload, row);
  check_checkpoint(plan, row);
  check_detection(plan, row);
  check_reduce_precision(plan.train, row);
  settle_shares(plan.train, ranks, who);
  check_given(config.pipeline, plan, row, mesh);
  if (mesh.pipeline > 1) check_mesh(plan, row, mesh);
  if (row.own_replicas) check_side_by_side(plan);
  const std::vector<int> hosts =
      hosts_of_workers(world, plan.cluster, config.host_slots, plan.hosts.workers);
  settle_options(plan, row, mesh, hosts);
  check_options(plan, row, mesh);
  if (row.max_world == 1)
    plan.train.reduce = Reduce::last;
  else if (plan.train.reduce == Reduce::by_scheme)
    plan.train.reduce = row.reduces_each_micro_batch ? Reduce::every : Reduce::last;
  plan.train.accumulation = divide(plan, ranks, who, measured) * (replicas ? ranks : 1);
  plan.train.micro_batch = largest_micro_batch(plan);
  check_batch_norm_groups(plan, ranks);
  const SumOrder order = row.order(plan.options, plan);
  plan.sums = sum_tree(plan, order);
  check_sums_of_stages(plan, mesh, hosts);
  plan.expendable = row.expendable(plan.options, plan.world);
  const Servers servers = row.servers(plan.options, plan.world);
  place_ranks(plan, servers);
  lay_out_stages(plan, mesh);
  if (has_pipeline(plan)) {
    settle_pipeline(plan, config.pipeline, config.calibrated);
    check_post_validation(plan, row);
    const bool by_parts = plan.promise != Promise::same_run && !row.own_replicas;
    if (order == SumOrder::own_by_messages || by_parts) plan.sums.borders = gradient_borders(plan);
  }
  give_devices(plan, servers, config.in_job);
  check_faults(plan);
  if (row.program) {
    plan.program = row.program(plan.options);
    for (RankPlan& rank : plan.ranks) rank.environment = row.environment(plan);
  }
  if (plan.cluster) {
    check_places(plan);
    check_products(plan);
  }
  plan_worlds(plan, config, row, measured);
  return plan;
}

}  // namespace ringside::runner
