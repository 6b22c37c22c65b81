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

/// The [compare] table of an experiment file.
struct CompareConfig {
  std::vector<std::string> schemes = {"single", "dp", "ps", "ddp", "fsdp"};
  std::vector<std::int64_t> worlds = {1, 2};
  std::int64_t repeats = 5;
  std::int64_t attempts = 3;
  bool all_cores = true;
};

Fields fields_of(CompareConfig& config);

/// The experiment as the file and the command line ask for it. Names and types have been checked;
/// the planner checks whether the values make sense.
struct ExperimentConfig {
  std::string name;  // by default the file's name without .toml
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  DeviceConfig device;
  SimConfig sim;
  CompareConfig compare;
  /// The options of every scheme for which a [scheme.X] table or an override sets at least one;
  /// options that are not set have their defaults.
  std::map<std::string, Options> scheme_options;
  /// The cluster of the file that device.cluster names, for device.kind "sim".
  std::optional<sim::ClusterSpec> cluster;
};

/// Reads a TOML file and then the overrides. If two overrides set the same key, the later one
/// counts. An override is "table.key=value" with a TOML value or a bare word
/// ("scheme.ps.servers=4", "data.path=text.txt"). model.preset (core/models/presets.h) sets all of
/// [model] before the other keys of the file. Paths become absolute: those of the file relative to
/// its folder, those of overrides relative to the current folder. Throws Error that names the file
/// and line, or the override, if something cannot be read, a name is unknown (the nearest known one
/// is suggested), or a value has the wrong type.
ExperimentConfig read_experiment(const std::filesystem::path& file,
                                 const std::vector<std::string>& overrides);

}  // namespace ringside
