#include "experiments/runner/plan/checks.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/data/file_content.h"
#include "core/data/file_list.h"
#include "core/device/ledger.h"
#include "core/interchange/weights.h"
#include "core/optim/optimizers.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "core/sim/uneven.h"
#include "core/sim/world.h"
#include "experiments/runner/plan/simulated.h"
#include "experiments/runner/registry/model_work.h"
#include "experiments/runner/registry/state_formula.h"

namespace ringside::runner {
namespace {

constexpr double longest_timeout_s = 1e6;
/// A limit on the size of records, which have the loss of every step.
constexpr std::int64_t most_steps = 1'000'000'000;
/// The most elements of a tensor: its number of bytes must fit into 63 bits.
constexpr std::int64_t most_elements = std::int64_t{1} << 60;

void check_train(const TrainConfig& train, const DataConfig& data) {
  require_between("train.steps", train.steps, 1, most_steps);
  if (train.steps <= train.warmup)
    throw Error(
        "train.steps = {} leaves nothing to measure after train.warmup = {}; use more steps",
        train.steps, train.warmup);
  require_between("train.global_batch", train.global_batch, 1, most_samples);
  require_between("train.batch_per_rank", train.batch_per_rank, 0, most_samples);
  require_between("train.micro_batch", train.micro_batch, 0, most_samples);
  require_between("train.accumulation", train.accumulation, 1, most_samples);
  require_between("train.evaluate_batches", train.evaluate_batches, 1, most_samples);
  if (train.timeout_s > longest_timeout_s)
    throw Error("train.timeout_s = {} must be at most {} seconds", train.timeout_s,
                longest_timeout_s);
  if (data.holdout >= 1) throw Error("data.holdout = {} must be less than 1", data.holdout);
  if (train.evaluate_every > 0 && data.holdout == 0)
    throw Error("train.evaluate_every = {} needs held-out data; set data.holdout, such as 0.1",
                train.evaluate_every);
}

void check_kinds(const ExperimentConfig& config) {
  find_model(config.model.kind);
  find_dataset(config.data.kind);
  const DeviceRow& device = find_device(config.device.kind);
  if (config.device.tf32 && device_traits(device.name).on_processor)
    throw Error("device.tf32 = true: device 'cpu' has no tensor cores; leave device.tf32 out");
  const bool slowed = !config.device.slow.empty() || config.device.jitter != 0;
  if (slowed && !device_traits(config.device.kind).on_processor)
    throw Error(
        "device.slow and device.jitter slow workers on CPUs; for simulated ones use [[slow]] of "
        "the cluster file and sim.jitter, for device '{}' leave them out",
        config.device.kind);
  for (const double factor : config.device.slow)
    if (!(factor >= 1 && factor <= most_slowness))
      throw Error("device.slow: {} is no factor from 1 to {}", factor, most_slowness);
  if (!(config.device.jitter >= 0 && config.device.jitter <= sim::most_jitter))
    throw Error("device.jitter = {} must lie between 0 and {}", config.device.jitter,
                sim::most_jitter);
  require_between("device.threads", config.device.threads, 1, most_threads);
}

template <class T>
void check_list(std::string_view key, const std::vector<T>& list) {
  if (list.empty()) throw Error("{} is empty; name at least one", key);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (std::find(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(i), list[i]) !=
        list.begin() + static_cast<std::ptrdiff_t>(i))
      throw Error("{} names {} twice", key, list[i]);
}

/// Throws Error if an activation could have more than most_elements. An activation has at most as
/// many elements as the larger of two numbers: the elements of a micro-batch's input times the
/// parameters of a unit, and the scores of attention.
void check_countable(const RunPlan& plan, const Model& model) {
  std::int64_t widest = 1;
  for (const auto& unit : model.units) widest = std::max(widest, unit->layout().count());
  const auto countable = [](std::initializer_list<std::int64_t> extents) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : extents)
      if (__builtin_mul_overflow(elements, extent, &elements)) return false;
    return elements <= most_elements;
  };
  const std::int64_t samples = plan.train.micro_batch;
  const std::int64_t context = std::max(plan.model.context, plan.model.target_context);
  if (countable({samples, model.input.count(), widest}) &&
      countable({samples, plan.model.heads, context, context}))
    return;
  throw Error(
      "train.micro_batch = {}: an activation could have more than 2^60 elements; lower "
      "train.micro_batch, or the sizes in [model]",
      samples);
}

/// Whether the same model is made of both plans, on the same device.
bool same_model(const RunPlan& a, const RunPlan& b) {
  return a.model == b.model && a.device == b.device && a.cluster == b.cluster &&
         a.train.initial_weights == b.train.initial_weights;
}
bool same_data(const RunPlan& a, const RunPlan& b) {
  ModelConfig model = b.model;
  model.batch_norm_group = a.model.batch_norm_group;  // no sample depends on it
  return a.model == model && a.data == b.data;
}

/// One plan for each group of equal plans, with their largest batches, and with evaluations if one
/// of them has any.
std::vector<RunPlan> largest_of(const std::vector<RunPlan>& plans,
                                bool (*same)(const RunPlan&, const RunPlan&)) {
  std::vector<RunPlan> out;
  for (const RunPlan& plan : plans) {
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const RunPlan& other) { return same(plan, other); });
    if (known == out.end()) {
      out.push_back(plan);
      continue;
    }
    TrainConfig& train = known->train;
    train.micro_batch = std::max(train.micro_batch, plan.train.micro_batch);
    train.global_batch = std::max(train.global_batch, plan.train.global_batch);
    train.evaluate_every = std::max(train.evaluate_every, plan.train.evaluate_every);
  }
  return out;
}

/// The device on which the model of a plan is checked: the CPU for a run on GPUs, so that it can be
/// checked without a GPU.
std::unique_ptr<Device> device_for_checks(const RunPlan& plan) {
  return find_device(plan.cluster ? plan.device.kind : "cpu").make(plan, 0, nullptr);
}

void check_model(const RunPlan& plan) {
  if (plan.cluster) sim::require_simgrid();
  const auto device = device_for_checks(plan);
  const Model model = make_model(plan.model, *device);
  if (!plan.train.initial_weights.empty())
    open_weights(plan.train.initial_weights, model, plan.model);
  if (!plan.save.empty()) names_of(model, plan.model);
  check_countable(plan, model);
}

/// The number of the plan's ranks on the host that has most of them.
std::int64_t most_on_a_host(const RunPlan& plan) {
  if (plan.homes.empty()) return static_cast<std::int64_t>(plan.ranks.size());
  std::map<std::string, std::int64_t> hosts;
  std::int64_t most = 0;
  for (const RankHome& home : plan.homes) most = std::max(most, ++hosts[home.host]);
  return most;
}

/// Throws Error if `ranks` ranks, each of which unpacks the compressed files of the data, cannot
/// hold them.
void check_unpacked(const Datasets& data, std::int64_t ranks) {
  const std::size_t each = data.training->memory() + (data.held_out ? data.held_out->memory() : 0);
  if (each <= most_unpacked() / static_cast<std::size_t>(ranks)) return;
  throw Error(
      "data.path: compressed files take {} unpacked in each of {} ranks, and memory may hold {} of "
      "them; unpack them on the disk with gzip -d",
      text_of_bytes(static_cast<std::int64_t>(each)), ranks,
      text_of_bytes(static_cast<std::int64_t>(most_unpacked())));
}

/// Checks that the plan's data serve its model, have enough samples for a step, and can be held by
/// `ranks` ranks on a host.
void check_data(const RunPlan& plan, std::int64_t ranks) {
  const auto device = device_for_checks(plan);
  const Task task = make_model(plan.model, *device).task;
  const Datasets data = find_dataset(plan.data.kind).make(plan.data, plan.model, task);
  const auto check_size = [&](const Dataset& part, std::string_view name) {
    if (part.size() < plan.train.global_batch)
      throw Error(
          "data.path: the {} data has {} samples of shape {}, fewer than a global batch ({}); name "
          "more data",
          name, part.size(), part.input_shape().text(), plan.train.global_batch);
  };
  check_unpacked(data, ranks);
  check_size(*data.training, "training");
  data.training->check();
  if (!data.held_out || plan.train.evaluate_every == 0) return;
  check_size(*data.held_out, "held-out");
  data.held_out->check();
}

bool shares_this_memory(const RunPlan& plan) {
  return plan.purpose == Purpose::asked && device_traits(plan.device.kind).on_processor &&
         !plan.cluster && !plan.program && plan.homes.empty();
}

/// Bytes of parameters, gradients and optimizer state that all workers of a run keep. If the scheme
/// does not state them, a worker has at least the parameters that it computes with.
/// The stages of a pipeline have the whole model together.
double state_of_workers(const RunPlan& plan, std::int64_t parameters) {
  const auto state = state_formula(data_view(plan, 0), parameters);
  const auto element = static_cast<double>(size_of(parameter_dtype(plan.train)));
  return data_world(plan) * (state ? state->total() : element * static_cast<double>(parameters));
}

/// Bytes of activations that all workers of a run hold at once, each for one micro-batch.
double activations_of_workers(const RunPlan& plan) {
  const double batches = static_cast<double>(plan.train.global_batch) /
                         static_cast<double>(plan.train.accumulation * plan.train.micro_batch);
  return batches * static_cast<double>(activations_of_worker(plan));
}

/// Whether the runs need the same memory.
bool same_need(const RunPlan& a, const RunPlan& b) {
  return a.scheme == b.scheme && a.options == b.options && a.world == b.world && a.mesh == b.mesh &&
         a.optimizer == b.optimizer && a.train == b.train && a.model == b.model;
}

}  // namespace

void check_memory(const std::vector<RunPlan>& plans, const MemoryLimit& limit) {
  const RunPlan* before = nullptr;  // repeats follow each other
  for (const RunPlan& plan : plans) {
    if (!shares_this_memory(plan) || (before && same_need(*before, plan))) continue;
    before = &plan;
    const auto device = device_for_checks(plan);
    const Model model = make_model(plan.model, *device);
    double needed = state_of_workers(plan, model.parameter_count());
    const char* what = "the model's state";
    if (needed <= limit.bytes) {
      needed += activations_of_workers(plan);
      what = "the model's state and activations";
    }
    if (needed <= limit.bytes) continue;
    throw Error(
        "run {}: its {} worker{} at least {} of memory for {}, but {} has {}; use a smaller model "
        "or train.micro_batch, set train.recompute, take a scheme that shards, or leave this world "
        "out (--worlds)",
        plan.id, plan.world, plan.world == 1 ? " needs" : "s need", memory_text(needed), what,
        limit.owner, memory_text(limit.bytes));
  }
}

void check_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (name.empty() || name[0] == '.' || !std::all_of(name.begin(), name.end(), allowed))
    throw Error("name = '{}' cannot name a folder; use letters, digits, '-', '_' and '.'", name);
}

void require_between(std::string_view key, std::int64_t value, std::int64_t least,
                     std::int64_t most) {
  if (value < least) throw Error("{} = {} must be at least {}", key, value, least);
  if (value > most) throw Error("{} = {} must be at most {}", key, value, most);
}

void check_world(std::string_view key, std::int64_t world) {
  if (world < 1 || world > most_ranks)
    throw Error("{} = {} must lie between 1 and {} ranks", key, world, most_ranks);
}

/// Throws Error for a number outside of its field's range. Files and the command line have been
/// held to these when they were read; a configuration may also be made by the program.
void check_ranges(ExperimentConfig config) {
  for (const auto& [table, fields] : tables_of(config)) require_ranges(fields, std::string(table));
  for (auto& [scheme, options] : config.scheme_options)
    require_ranges(options.fields(), "scheme." + scheme);
}

void check_config(const ExperimentConfig& config) {
  check_name(config.name);
  check_ranges(config);
  check_train(config.train, config.data);
  check_kinds(config);
  check_simulated(config);
  check(config.optimizer);
}

void check_worlds(std::string_view key, const std::vector<std::int64_t>& worlds) {
  check_list(key, worlds);
  for (const std::int64_t world : worlds) check_world(fmt::format("{}: world", key), world);
}

void check_compare(const Experiment& experiment) {
  const CompareConfig& compare = experiment.common.compare;
  if (experiment.cases.empty() || !compare.schemes.empty())
    check_list("compare.schemes", compare.schemes);
  check_worlds("compare.worlds", compare.worlds);
  if (!compare.seeds.empty()) check_list("compare.seeds", compare.seeds);
  require_between("compare.repeats", compare.repeats, 1, 1000);
  require_between("compare.attempts", compare.attempts, 1, 1000);
}

void check_target(const ExperimentConfig& config) {
  if (config.compare.target_kind == TargetKind::none || config.train.evaluate_every > 0) return;
  throw Error(
      "compare.target_loss needs losses on held-out data, but train.evaluate_every = 0; set "
      "train.evaluate_every, such as 10, or leave compare.target_loss out");
}

void check_inputs(const RunPlan& plan) { check_inputs(std::vector<RunPlan>{plan}); }

void check_inputs(const std::vector<RunPlan>& plans) {
  for (const RunPlan& plan : largest_of(plans, same_model)) check_model(plan);
  check_memory(plans, {static_cast<double>(allowed_memory()), owner_of_allowed_memory()});
  for (const RunPlan& plan : largest_of(plans, same_data)) {
    std::int64_t ranks = 1;
    for (const RunPlan& other : plans)
      if (same_data(plan, other)) ranks = std::max(ranks, most_on_a_host(other));
    check_data(plan, ranks);
  }
}

}  // namespace ringside::runner
