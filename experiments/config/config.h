// The experiment file.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The [compare] table.
struct CompareConfig {
  std::vector<std::string> schemes = {"single", "dp", "ps", "ddp", "fsdp"};
  std::vector<std::int64_t> worlds = {1, 2};
  std::int64_t repeats = 5;
  std::int64_t attempts = 3;
  bool all_cores = true;
};

Fields fields_of(CompareConfig& config);

/// What the experiment file and the command line asked for. Names and types are right; whether the
/// values make sense is the planner's business.
struct ExperimentConfig {
  std::string name;  // by default that of the file
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  CompareConfig compare;
  /// [scheme.X]: the options of each scheme of which some were given, complete.
  std::map<std::string, Options> scheme_options;
  /// What device.cluster names, for device.kind "sim".
  std::optional<sim::ClusterSpec> cluster;
};

/// Reads a TOML file and then the overrides, each "table.key=value" with a TOML value or a bare
/// word ("scheme.ps.servers=4", "data.path=text.txt"); a later one wins. model.preset (core/models/
/// presets.h) sets all of [model], before the other keys of the file. Paths become absolute:
/// those of the file relative to its folder, those of overrides to the current one. Throws Error
/// that names the file and line, or the override, for what cannot be read, unknown names (with the
/// nearest known one) and values of the wrong type.
ExperimentConfig read_experiment(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides);

}  // namespace ringside
