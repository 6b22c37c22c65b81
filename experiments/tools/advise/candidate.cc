#include "experiments/tools/advise/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/plan/same_run.h"
#include "experiments/runner/config/cases.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/predict.h"

namespace ringside::tools::advise {
namespace {

/// The most GPUs of one process with one master; more are not used in practice.
constexpr std::int64_t most_under_a_master = 16;

constexpr double memory_for_anything_gb = 1e6;

// The first step allocates memory and fills caches; the second one is timed.
constexpr int warmup = 1, steps = 2;

/// Settings as `bind_line` takes them.
class Settings {
 public:
  template <class Value>
  void set(const std::string& key, const Value& value) {
    const std::string text = fmt::format("{}={}", key, value);
    runner::Assignment one = runner::parse_assignment(text, text);
    // A table of TOML has each key once.
    std::erase_if(all_, [&](const runner::Assignment& before) { return before.path == one.path; });
    all_.push_back(std::move(one));
  }
  void add(const std::vector<Setting>& settings) {
    for (const Setting& one : settings) set(one.key, one.value);
  }
  void add_micro_batch(const MicroBatch& micro_batch) {
    const bool tf32 = micro_batch.precision == "tf32";
    set("train.precision", tf32 ? "fp32" : micro_batch.precision);
    set("device.tf32", tf32);
    set("train.recompute", name_of(micro_batch.recompute));
    set("train.micro_batch", micro_batch.samples);
    set("train.accumulation", 1);
    set("train.shares", "equal");
  }
  const std::vector<runner::Assignment>& all() const { return all_; }

 private:
  std::vector<runner::Assignment> all_;
};

/// The configuration of a simulated run on GPUs, which needs few steps and no trace.
runner::ExperimentConfig simulated(const Question& question,
                                   const std::vector<runner::Assignment>& settings) {
  runner::ExperimentConfig config =
      runner::bind_line(question.training, settings, {}, question.training.name);
  config.train.steps = steps;
  config.train.warmup = warmup;
  config.train.evaluate_every = 0;
  config.sim.traced_ranks = 0;
  return config;
}

std::int64_t machines_of(const Question& question, std::int64_t world) {
  const std::int64_t ranks = question.ranks_of_machine();
  return (world + ranks - 1) / ranks;
}

/// Size of the parts that servers get: 1 MB, and more if a step would take very many messages,
/// which slow down servers and the simulation.
std::int64_t partition_mb(const Question& question, std::int64_t world) {
  constexpr std::int64_t most_messages = 50'000, mb = 1'000'000, largest = 1024;
  return std::clamp<std::int64_t>(4 * question.parameters / mb * world / most_messages, 1, largest);
}

/// The families by the names of their schemes, with the options and tunings to try.
std::vector<Family> listed_families(const Question& question, std::int64_t world) {
  const Family fsdp{"fsdp", "fsdp", {}, {{"bucket_mb", {"25", "100"}}, {"prefetch", {"2"}}}};
  if (world == 1) {
    std::vector<Family> all = {{std::string(reference_scheme), std::string(reference_scheme), {}}};
    // A single rank can still offload its state to its host.
    if (!question.on_cpus()) all.push_back(fsdp);
    return all;
  }
  std::vector<Family> all = {{"ddp", "ddp", {}, {{"bucket_mb", {"5", "100"}}}},
                             {"zero1", "zero1", {}, {{"bucket_mb", {"25", "100"}}}},
                             {"zero2", "zero2", {}, {{"bucket_mb", {"25", "100"}}}},
                             fsdp};
  const std::int64_t of_machine = question.ranks_of_machine();
  if (of_machine > 1 && world > of_machine && world % of_machine == 0)
    all.push_back({"fsdp",
                   "fsdp within machines",
                   {{"scheme.fsdp.shard", "hybrid_shard"},
                    {"scheme.fsdp.shard_group", std::to_string(of_machine)}},
                   fsdp.tunings});
  const std::int64_t machines = machines_of(question, world);
  const Setting part{"scheme.ps.partition_mb", std::to_string(partition_mb(question, world))};
  const std::vector<Tuning> parts = {{"partition_mb", {"4", "16"}}};
  all.push_back(
      {"ps",
       "ps colocated",
       {{"scheme.ps.placement", "colocated"}, {"scheme.ps.servers", std::to_string(world)}, part},
       parts});
  all.push_back({"ps",
                 "ps on hosts",
                 {{"scheme.ps.placement", "dedicated"},
                  {"scheme.ps.servers", std::to_string(machines)},
                  part},
                 parts});
  if (machines == 1 && world <= most_under_a_master) all.push_back({"dp", "dp", {}});
  return all;
}

/// Fills in what follows from the scheme and its options.
void fill_in(Family& family, const Question& question, int world) {
  const SchemeInfo& scheme = runner::find_scheme(family.scheme);
  Settings settings;
  settings.add(family.options);
  const runner::ExperimentConfig config =
      runner::bind_line(question.training, settings.all(), {}, question.training.name);
  const Options& options = runner::options_of(config, scheme);
  family.topology = scheme.topology;
  family.colocated_servers = scheme.servers(options, world).colocated > 0;
  if (scheme.divides) family.stage = scheme.divides(options, world).stage;
  if (question.on_cpus()) return;
  // A rank that keeps parameters whole needs all of them on its device anyway.
  const bool shards_parameters = family.stage >= ZeroStage::parameters;
  family.offloads =
      shards_parameters ? scheme.offloads : std::min(scheme.offloads, Offload::optimizer);
}

}  // namespace

std::vector<Family> families_of(const Question& question, std::int64_t world) {
  std::vector<Family> all = listed_families(question, world);
  for (Family& family : all) fill_in(family, question, static_cast<int>(world));
  return all;
}

std::vector<Setting> mesh_settings(const Stages& stages) {
  if (stages.ranks == 1) return {};
  return {{"mesh.pipeline", std::to_string(stages.ranks)},
          {"pipeline.schedule", stages.schedule},
          {"pipeline.chunks", std::to_string(stages.chunks)}};
}

std::vector<Family> mesh_families_of(const Question& question, std::int64_t world,
                                     std::int64_t units) {
  std::vector<Family> out;
  for (const Family& family : families_of(question, world)) {
    if (family.label != "ddp" && family.label != "fsdp") continue;
    for (std::int64_t ranks = 2; world % ranks == 0 && ranks < world && ranks <= units; ranks *= 2)
      for (const Stages& stages :
           {Stages{ranks, "1f1b"}, Stages{ranks, "interleaved", 2}, Stages{ranks, "zb_h1"}}) {
        if (ranks * stages.chunks > units) continue;
        Family& mesh = out.emplace_back(family);
        mesh.label = fmt::format("{}, mesh data {} x pipeline {} ({})", family.label, world / ranks,
                                 ranks, stages.schedule);
        mesh.stages = stages;
        mesh.offloads = Offload::none;
        for (const Setting& one : mesh_settings(stages)) mesh.options.push_back(one);
      }
  }
  return out;
}

std::vector<std::vector<Setting>> tunings_of(const Candidate& candidate) {
  const Family& family = candidate.family;
  std::vector<std::vector<Setting>> out;
  for (const Tuning& tuning : family.tunings)
    for (const std::string& value : tuning.values)
      out.push_back({{fmt::format("scheme.{}.{}", family.scheme, tuning.option), value}});
  if (runner::find_scheme(family.scheme).reduces_each_micro_batch && candidate.micro_batches > 1)
    out.push_back({{"train.reduce", "last"}});
  return out;
}

std::string label_of(const Candidate& candidate) {
  std::string out = candidate.family.label;
  if (!candidate.precision.empty()) out += ", " + candidate.precision;
  if (candidate.recompute != Recompute::none)
    out += fmt::format(", recompute {}", name_of(candidate.recompute));
  if (candidate.offload != Offload::none)
    out += candidate.offload == Offload::optimizer ? ", offload optimizer"
                                                   : ", offload optimizer and parameters";
  if (candidate.micro_batches > 1)
    out += fmt::format(", {} micro-batches", candidate.micro_batches);
  for (const Setting& one : candidate.tuned)
    out += fmt::format(", {}={}", one.key.substr(one.key.rfind('.') + 1), one.value);
  return out;
}

MicroBatch micro_batch_of(const Question& question, const Candidate& candidate) {
  return {candidate.precision, candidate.recompute,
          question.training.train.global_batch / candidate.replicas() / candidate.micro_batches};
}

runner::CaseConfig case_of(const Question& question, const Candidate& candidate) {
  Settings settings;
  if (!question.machine) {
    settings.add_micro_batch(micro_batch_of(question, candidate));
    settings.set("train.offload", name_of(candidate.offload));
  }
  settings.add(candidate.family.options);
  settings.add(candidate.tuned);
  return {.scheme = candidate.family.scheme,
          .label = label_of(candidate),
          .worlds = {candidate.world},
          .set = settings.all()};
}

runner::ExperimentConfig advised_training(const Question& question, const Candidate& candidate) {
  const runner::CaseConfig one = case_of(question, candidate);
  return question.machine
             ? runner::bind_line(question.training, one.set, {}, question.training.name)
             : simulated(question, one.set);
}

RunPlan plan_of(const Question& question, const Candidate& candidate) {
  runner::ExperimentConfig config = advised_training(question, candidate);
  const auto world = static_cast<int>(candidate.world);
  if (question.machine)
    return runner::prediction_plan(runner::plan_training(config, candidate.family.scheme, world),
                                   *question.machine);
  config.cluster->device.memory_gb -= question.reserve_gb;
  for (sim::OtherMachines& other : config.cluster->others)
    other.device.memory_gb -= question.reserve_gb;
  return runner::plan_training(config, candidate.family.scheme, world);
}

RunPlan plan_of_lone_replica(const Question& question, const Candidate& candidate,
                             const MicroBatch& micro_batch) {
  Settings settings;
  settings.add_micro_batch(micro_batch);
  settings.set("train.global_batch", micro_batch.samples * candidate.micro_batches);
  settings.set("train.offload", "none");
  settings.add(candidate.family.options);
  runner::ExperimentConfig config = simulated(question, settings.all());
  config.cluster->device.memory_gb = memory_for_anything_gb;
  return runner::plan_training(config, candidate.family.scheme, static_cast<int>(candidate.world));
}

RunPlan lone_plan(const Question& question, const MicroBatch& micro_batch) {
  Settings settings;
  settings.add_micro_batch(micro_batch);
  settings.set("train.global_batch", micro_batch.samples);
  settings.set("train.offload", "none");
  runner::ExperimentConfig config = simulated(question, settings.all());
  config.cluster->device.memory_gb = memory_for_anything_gb;
  return runner::plan_training(config, std::string(reference_scheme), 1);
}

double network_ms(const Question& question, const Candidate& candidate) {
  const auto machines = static_cast<double>(machines_of(question, candidate.world));
  if (candidate.family.topology != SchemeTopology::servers || machines < 2) return 0;
  const sim::ClusterSpec& cluster = question.cluster();
  const bool half = candidate.precision == "bf16" || candidate.precision == "fp16";
  const double model_gb = 1e-9 * static_cast<double>(question.parameters) * (half ? 2 : 4);
  // All that a machine's workers push leaves the machine, except the parts of its own servers.
  // Colocated servers send as much to the workers of other machines, through the same cards.
  const double directions = candidate.family.colocated_servers ? 2 : 1;
  const double out_gb = directions * static_cast<double>(candidate.world) / machines * model_gb *
                        (machines - 1) / machines;
  return 1e3 * out_gb / (static_cast<double>(cluster.nics) * cluster.nic.gbs);
}

bool simpler(const Candidate& a, const Candidate& b) {
  const auto order = [](const Candidate& one) {
    return std::tuple(one.offload, one.simplicity, one.recompute, one.tuned.size(),
                      one.micro_batches);
  };
  return order(a) <= order(b);
}

}  // namespace ringside::tools::advise
