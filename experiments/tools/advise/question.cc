#include "experiments/tools/advise/question.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/models/presets.h"
#include "core/plan/places.h"
#include "core/plan/same_run.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/planner.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::tools::advise {
namespace {

bool needs_files(const DatasetInfo& row, const DataConfig& data) {
  try {
    return !row.files(data).training.empty();
  } catch (const Error&) {
    return true;  // and they are not there
  }
}

/// The first data set that needs no files and has samples of the kind that the model reads.
void choose_data(runner::ExperimentConfig& config) {
  std::string error;
  for (const DatasetInfo& row : runner::dataset_rows()) {
    if (needs_files(row, config.data)) continue;
    config.data.kind = row.name;
    try {
      runner::check_inputs(runner::plan_training(config, std::string(reference_scheme), 1));
      return;
    } catch (const std::exception& refusal) {
      if (error.empty()) error = refusal.what();
    }
  }
  throw Error("{}", error);
}

/// The numbers of workers among `worlds` that divide the batch.
std::vector<std::int64_t> dividing(const std::vector<std::int64_t>& worlds, std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (const std::int64_t world : worlds)
    if (batch % world == 0) out.push_back(world);
  return out;
}

/// Those and all whose workers divide it if the stages of a pipeline make fewer replicas of them.
std::vector<std::int64_t> dividing_as_meshes(const std::vector<std::int64_t>& worlds,
                                             std::int64_t batch) {
  std::vector<std::int64_t> out;
  for (const std::int64_t world : worlds) {
    std::int64_t replicas = world;
    while (replicas % 2 == 0 && batch % replicas != 0) replicas /= 2;
    if (batch % world == 0 || (replicas > 1 && batch % replicas == 0)) out.push_back(world);
  }
  return out;
}

std::vector<std::int64_t> default_worlds(const Question& question) {
  std::int64_t machines = question.cluster().machines;
  std::vector<std::int64_t> worlds = {machines * question.ranks_of_machine()};
  if (question.on_cpus())  // some steps are too short for all cores
    for (std::int64_t world = worlds.front() / 2; world > 0; world /= 2) worlds.push_back(world);
  else if (question.deadline_h > 0)
    while ((machines /= 2) > 0) worlds.push_back(machines * question.ranks_of_machine());
  return worlds;
}

/// Resets the keys that candidates set.
void reset_what_is_chosen(TrainConfig& train) {
  const TrainConfig defaults;
  train.micro_batch = defaults.micro_batch;
  train.accumulation = defaults.accumulation;
  train.shares = defaults.shares;
  train.weights = defaults.weights;
  train.recompute = defaults.recompute;
  train.offload = defaults.offload;
}

/// The dtypes in which all devices of the cluster multiply.
std::vector<std::string> precisions_of(const sim::ClusterSpec& cluster) {
  std::vector<std::string> out;
  for (const auto& peak : cluster.device.tflops)
    if (std::all_of(cluster.others.begin(), cluster.others.end(),
                    [&](const auto& other) { return other.device.tflops.contains(peak.first); }))
      out.push_back(peak.first);
  return out;
}

void measure_model(Question& question) {
  const RunPlan plan = runner::plan_training(question.training, std::string(reference_scheme), 1);
  const auto device = runner::find_device(plan.device.kind).make(plan, 0, nullptr);
  const Model model = make_model(plan.model, *device);
  question.parameters = model.parameter_count();
  question.unit_parameters.clear();
  for (const auto& unit : model.units) question.unit_parameters.push_back(unit->layout().count());
}

}  // namespace

double Question::memory_gb() const {
  double least = cluster().device.memory_gb;
  for (const sim::OtherMachines& other : cluster().others)
    least = std::min(least, other.device.memory_gb);
  return least;
}

std::vector<std::string> usual_precisions(const Question& question) {
  const std::vector<std::string> known = precisions_of(question.cluster());
  std::vector<std::string> out;
  for (const auto& [first, second] : {std::pair("bf16", "fp16"), {"tf32", "fp32"}})
    for (const char* dtype : {first, second})
      if (std::find(known.begin(), known.end(), dtype) != known.end()) {
        out.push_back(dtype);
        break;
      }
  return out;
}

runner::ExperimentConfig training_of_preset(const std::string& preset,
                                            const std::vector<std::string>& overrides) {
  find_preset(preset);
  std::vector<std::string> all = {"model.preset=" + preset, "data.holdout=0",
                                  "train.timeout_s=360000"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  runner::ExperimentConfig config = runner::experiment_of(preset, all).common;
  const bool data_given = std::any_of(overrides.begin(), overrides.end(), [](const auto& one) {
    return one.starts_with("data.kind=") || one.starts_with("data.path=");
  });
  reset_what_is_chosen(config.train);
  if (!data_given) choose_data(config);
  return config;
}

void complete(Question& question) {
  TrainConfig& train = question.training.train;
  if (!question.machine) reset_what_is_chosen(train);
  runner::check_inputs(runner::plan_training(question.training, std::string(reference_scheme), 1));
  if (question.reserve_gb >= question.memory_gb() && !question.on_cpus())
    throw Error("--reserve {}: the devices have {} GB", question.reserve_gb, question.memory_gb());
  measure_model(question);
  if (question.worlds.empty()) question.worlds = default_worlds(question);
  std::sort(question.worlds.begin(), question.worlds.end());
  if (train.batch_per_rank > 0) {
    train.global_batch = train.batch_per_rank * question.worlds.back();
    train.batch_per_rank = 0;
  }
  std::vector<std::int64_t> worlds = dividing(question.worlds, train.global_batch);
  if ((worlds.empty() || question.meshes) && !question.on_cpus())
    worlds = dividing_as_meshes(question.worlds, train.global_batch);
  if (worlds.empty())
    throw Error(
        "a global batch of {} samples cannot be divided equally among {} workers; choose a "
        "multiple with --batch, or other numbers of workers with --worlds",
        train.global_batch, fmt::join(question.worlds, " or "));
  question.worlds = worlds;
  const std::int64_t devices = question.cluster().machines * question.ranks_of_machine();
  if (question.worlds.back() > devices)
    throw Error("--worlds {}: the cluster '{}' has {} {}", question.worlds.back(),
                question.cluster().name, devices, question.on_cpus() ? "cores" : "devices");
  if (question.precisions.empty())
    question.precisions = {
        products_dtype(runner::plan_training(question.training, std::string(reference_scheme), 1))};
  if (question.machine) return;
  const std::vector<std::string> known = precisions_of(question.cluster());
  for (const std::string& precision : question.precisions)
    if (std::find(known.begin(), known.end(), precision) == known.end())
      throw Error("--precisions {}: device '{}' multiplies in {}", precision,
                  question.cluster().device.name, fmt::join(known, ", "));
}

}  // namespace ringside::tools::advise
