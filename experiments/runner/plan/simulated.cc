#include "experiments/runner/plan/simulated.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "core/models/presets.h"
#include "core/plan/device_traits.h"
#include "core/plan/places.h"
#include "core/plan/saved_steps.h"
#include "core/sim/cluster_check.h"
#include "core/sim/uneven.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// The cluster's factor on the speed of all operations of the plan's model, and, if it was fitted
/// to this model, the error of its step.
struct KnownSpeed {
  double factor = 1;
  std::optional<double> error{};
};

KnownSpeed known_speed(const RunPlan& plan) {
  const std::string dtype = products_dtype(plan);
  const Preset* preset = preset_of(plan.model);
  double logarithms = 0;
  int count = 0;
  for (const sim::ModelSpeed& speed : plan.cluster->speeds) {
    if (speed.precision != dtype) continue;
    if (preset && preset->name == speed.model) return {speed.factor, speed.error};
    logarithms += std::log(speed.factor);
    ++count;
  }
  return {count == 0 ? 1 : std::exp(logarithms / count)};
}

/// Applies the efficiency of [device] and the cluster's known speed of the model. A device whose
/// step for this model is known has the error of that step.
void scale_efficiency(sim::DeviceSpec& device, const DeviceConfig& config,
                      const KnownSpeed& known) {
  if (known.error || config.efficiency != 1)
    for (const auto& [dtype, rate] : device.tflops) device.error[dtype] = known.error.value_or(0);
  for (auto& [dtype, classes] : device.efficiency)
    for (auto& [name, curve] : classes) {
      const bool fusible = name == name_of(OpClass::normalisation) ||
                           name == name_of(OpClass::batch_normalisation) ||
                           name == name_of(OpClass::elementwise);
      for (auto& [time, share] : curve.points)
        share *= known.factor * config.efficiency / (fusible ? config.unfused : 1);
    }
}

/// A figure that a setting replaces is not assumed any more; without a key, all of the part's.
void no_longer_assumed(sim::ClusterSpec& cluster, std::string_view part,
                       std::string_view key = {}) {
  std::erase_if(cluster.assumed, [&](sim::Assumed& one) {
    if (one.part != part) return false;
    std::erase_if(one.keys, [&](const std::string& name) { return key.empty() || name == key; });
    return one.keys.empty();
  });
}

/// Puts the figures that [sim] gives in place of those of the cluster file.
void replace_figures(sim::ClusterSpec& cluster, const SimConfig& sim) {
  const auto replace = [&](bool given, double& figure, double value, std::string_view part,
                           std::string_view key) {
    if (!given) return;
    figure = value;
    no_longer_assumed(cluster, part, key);
  };
  replace(sim.network_gbit_s > 0, cluster.nic.gbs, sim.network_gbit_s / 8, "nic", "bandwidth_gbs");
  replace(sim.queue_kb >= 0, cluster.nic.queue_kb, sim.queue_kb, "nic", "queue_kb");
  if (!sim.drops) cluster.nic.queue_kb = 0;
  replace(sim.jitter > 0, cluster.jitter, sim.jitter, "cluster", "jitter");
  replace(sim.spread >= 0, cluster.spread, sim.spread, "cluster", "spread");
  replace(sim.device_share >= 0, cluster.collective.device_share, sim.device_share, "collective",
          "device_share");
  if (!sim.tuning) cluster.collective.tuning = sim::CollectiveTuning::rings;
  if (const auto& cost = find_messages(sim.messages).cost) {
    cluster.message = *cost;
    no_longer_assumed(cluster, "message");
  }
}

/// Leaves out what the run does not use, and so what is assumed of that: the speed of storage
/// without checkpoints, and failures without either those or faults.
void leave_out_unused(RunPlan& plan) {
  if (writes_checkpoints(plan)) return;
  plan.cluster->storage = {};
  no_longer_assumed(*plan.cluster, "storage");
  if (!plan.faults.plan.empty() || !plan.faults.rate.empty()) return;
  plan.cluster->failures = {};
  no_longer_assumed(*plan.cluster, "failures");
}

/// Returns the result of `ask` for the plan's model.
template <class Ask>
auto ask_model(const RunPlan& plan, const Ask& ask) {
  ModelConfig config = plan.model;
  config.batch_norm_group = 1;
  const auto device = find_device("cpu").make(plan, 0, nullptr);
  return ask(make_model(config, *device));
}

/// The number of tensors of the model that have gradients.
std::int64_t gradient_tensors(const Model& model) {
  std::int64_t count = 0;
  for (const auto& unit : model.units)
    count += static_cast<std::int64_t>(unit->layout().parameters().size());
  return count;
}

bool takes_images(const Model& model) {
  return model.task == Task::image_class || model.task == Task::caption_tokens;
}

}  // namespace

void check_simulated(const ExperimentConfig& config) {
  const SimConfig& sim = config.sim;
  if (sim.queue_kb != -1 && !(sim.queue_kb >= 0))
    throw Error("sim.queue_kb = {} must be at least 0, or -1 for that of the cluster file",
                sim.queue_kb);
  if (!(sim.jitter >= 0 && sim.jitter <= sim::most_jitter))
    throw Error("sim.jitter = {} must lie between 0 and {}", sim.jitter, sim::most_jitter);
  if (sim.spread != -1 && !(sim.spread >= 0 && sim.spread <= sim::most_jitter))
    throw Error("sim.spread = {} must lie between 0 and {}, or be -1 for that of the cluster file",
                sim.spread, sim::most_jitter);
  if (sim.device_share != -1 && !(sim.device_share >= 0 && sim.device_share < 1))
    throw Error(
        "sim.device_share = {} must be at least 0 and less than 1, or be -1 for that of the "
        "cluster file",
        sim.device_share);
  const double efficiency = config.device.efficiency;
  if (!(efficiency >= 1 / most_efficiency && efficiency <= most_efficiency))
    throw Error("device.efficiency = {} must lie between 1/{} and {}", efficiency, most_efficiency,
                most_efficiency);
  if (efficiency != 1 && !device_traits(config.device.kind).simulated)
    throw Error("device.efficiency = {} is for simulated devices; for device '{}' leave it out",
                efficiency, config.device.kind);
  const double unfused = config.device.unfused;
  if (!(unfused >= 1 && unfused <= most_unfused))
    throw Error("device.unfused = {} must lie between 1 and {}", unfused, most_unfused);
  if (unfused != 1 && !device_traits(config.device.kind).simulated)
    throw Error("device.unfused = {} is for simulated devices; for device '{}' leave it out",
                unfused, config.device.kind);
  const bool framework = find_framework(sim.framework).name != "none";
  const bool messages = find_messages(sim.messages).cost.has_value();
  if (config.cluster) return;
  if (device_traits(config.device.kind).simulated)
    throw Error(
        "device.kind = 'sim' needs device.cluster, a file such as "
        "experiments/clusters/dgx-a100.toml");
  const std::pair<bool, std::string> settings[] = {
      {sim.network_gbit_s > 0, fmt::format("sim.network_gbit_s = {}", sim.network_gbit_s)},
      {sim.queue_kb > 0, fmt::format("sim.queue_kb = {}", sim.queue_kb)},
      {sim.jitter > 0, fmt::format("sim.jitter = {}", sim.jitter)},
      {sim.spread > 0, fmt::format("sim.spread = {}", sim.spread)},
      {sim.device_share > 0, fmt::format("sim.device_share = {}", sim.device_share)},
      {sim.servers_apart, "sim.servers_apart"},
      {framework, fmt::format("sim.framework = '{}'", sim.framework)},
      {messages, fmt::format("sim.messages = '{}'", sim.messages)},
      {sim.decode, "sim.decode"}};
  for (const auto& [given, text] : settings)
    if (given)
      throw Error(
          "{} needs a simulated cluster; set device.kind = 'sim' and device.cluster, or leave it "
          "out",
          text);
}

void settle_cluster(RunPlan& plan) {
  if (!plan.cluster) return;
  sim::ClusterSpec& cluster = *plan.cluster;
  replace_figures(cluster, plan.sim);
  leave_out_unused(plan);
  const KnownSpeed known = known_speed(plan);
  scale_efficiency(cluster.device, plan.device, known);
  for (sim::OtherMachines& other : cluster.others)
    scale_efficiency(other.device, plan.device, known);
  if (plan.sim.decode && !ask_model(plan, takes_images))
    throw Error("sim.decode = true: a model of kind '{}' takes no images; leave sim.decode out",
                plan.model.kind);
  if (plan.sim.decode && cluster.decoded_per_s == 0)
    throw Error(
        "sim.decode = true: cluster {} does not say how many images a second its hosts decode; add "
        "decoded_per_s to the cluster file, or leave sim.decode out",
        cluster.name);
  if (plan.sim.queue_kb > 0 && cluster.nic.by_queue.points.empty())
    throw Error(
        "sim.queue_kb = {}: cluster {} does not say what a short queue leaves of its network's "
        "rate; add by_queue to the link of its network cards, or leave sim.queue_kb out",
        plan.sim.queue_kb, cluster.name);
  if (const auto problem = sim::find_problem(cluster))
    throw Error("cluster {} with the settings of [device] and [sim]: {} {}", cluster.name,
                problem->field, problem->reason);
}

double host_step_us(const RunPlan& plan) {
  const FrameworkRow& framework = find_framework(plan.sim.framework);
  const auto found = framework.gradient_us.find(plan.scheme);
  if (found == framework.gradient_us.end()) return 0;
  return found->second * static_cast<double>(ask_model(plan, gradient_tensors));
}

}  // namespace ringside::runner
