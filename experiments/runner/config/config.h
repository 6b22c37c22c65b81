// The experiment file.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/interchange/stated_model.h"
#include "core/plan/run_plan.h"
#include "experiments/runner/config/toml.h"
#include "experiments/runner/registry/calibrated_machine.h"

namespace ringside::runner {

/// The [compare] table of an experiment file, without its cases and its sweep.
struct CompareConfig {
  std::vector<std::string> schemes = {"single", "dp", "ps", "ddp", "fsdp"};
  std::vector<std::int64_t> worlds = {1, 2};
  std::int64_t repeats = 5;
  std::vector<std::int64_t> seeds;
  std::int64_t attempts = 3;
  bool all_cores = true;
  bool quick = false;  // by make_quick() alone: files do not say it
  TargetKind target_kind = TargetKind::none;
  double target_loss = 0;
};

Fields fields_of(CompareConfig& config);

/// The [plugins] table.
struct PluginsConfig {
  std::vector<std::string> files;
};

Fields fields_of(PluginsConfig& config);

/// The experiment as the file and the command line ask for it. Names and types have been checked;
/// the planner checks whether the values make sense.
struct ExperimentConfig {
  std::string name;  // by default the file's name without .toml
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  OptimizerConfig optimizer;
  MeshConfig mesh;
  PipelineConfig pipeline;
  DeviceConfig device;
  SimConfig sim;
  HostsConfig hosts;
  CheckpointConfig checkpoint;
  FaultsConfig faults;
  CompareConfig compare;
  PluginsConfig plugins;  // loaded before the experiment was read
  /// The options of every scheme for which a [scheme.X] table or an override sets at least one;
  /// options that are not set have their defaults.
  std::map<std::string, Options> scheme_options;
  /// The model of the config.json that model.from names, with which `model` agrees.
  std::optional<StatedModel> stated_model;
  /// The cluster of the file that device.cluster names, for device.kind "sim".
  std::optional<sim::ClusterSpec> cluster;
  /// Whether the ranks of real devices live where a job places them, which numbers their devices.
  bool in_job = false;
  /// The places for ranks on each host of that job; empty: there is one host.
  std::vector<int> host_slots{};
  /// This machine, by whose times stages of real devices are even (pipeline.balance = "time").
  std::optional<CalibratedMachine> calibrated{};
};

/// The tables that every experiment has, by name, in the order of files: all but [scheme.X].
std::vector<std::pair<std::string_view, Fields>> tables_of(ExperimentConfig& config);

/// A value for one key of an experiment file, and where it was given.
struct Assignment {
  std::vector<std::string> path;  // {"scheme", "ps", "servers"}
  TomlData data;
  std::string place;             // "trial.toml:12", "--set train.steps=3": errors begin with it
  std::filesystem::path folder;  // relative paths in `data` are relative to this folder
};

/// The published figures of a case.
struct CaseFigures {
  /// By Measure: a figure for each world of the case; empty where nothing was published.
  std::array<std::vector<double>, measures> figures{};
  std::string over{};                  // label of the case with which ratios compare
  std::int64_t samples = 0;            // number of samples that take the published hours
  std::vector<std::int64_t> fitted{};  // worlds whose figures something was fitted to
  std::string contradiction{};         // why the figures cannot be right; empty if they can
};

/// The key of [[compare.case]] for figures of this measure.
std::string_view published_key(Measure measure);

/// One case of a comparison: a scheme with settings of its own.
struct CaseConfig {
  std::string scheme;
  std::string label;                 // empty: the planner makes one
  std::vector<std::int64_t> worlds;  // empty: those of compare.worlds
  CaseFigures published{};
  std::vector<Assignment> set{};  // win over the file and over --set
  std::string place{};
};

/// The fields of all members but `set` and `place`.
Fields fields_of(CaseConfig& config);

/// One key of [compare.sweep], and the values that it takes in turn.
struct SweptKey {
  std::string key;
  std::vector<Assignment> values;
};

/// An experiment file with its cases and its sweep.
struct Experiment {
  Experiment() = default;
  /// An experiment without cases and without a sweep.
  Experiment(ExperimentConfig config) : common(std::move(config)) {}

  ExperimentConfig common;  // holds for all cases that set nothing else
  std::vector<CaseConfig> cases;
  std::vector<SweptKey> sweep;
};

/// Loads the plug-ins that the file names (experiments/runner/registry/plugins.h), reads the TOML
/// file, then the overrides (a later one wins), and then adds `cases` to those of the file. An
/// override is "table.key=value" with a TOML value or a bare word ("scheme.ps.servers=4",
/// "data.path=text.txt"). A case is "SCHEME: key=value, key=value"; among its keys may be label,
/// world and worlds. model.preset (core/models/presets.h) sets all of [model] before the other keys
/// of the file, of an override or of a case. model.from does so with what a config.json decides
/// (core/interchange/stated_model.h), and other keys must agree with it. Paths become absolute:
/// those of the file relative to its folder, all others relative to the current folder. If there
/// are cases, and neither file nor overrides set compare.schemes, these become empty. Throws Error
/// that names the file and line, the override or the case, if something cannot be read, a name is
/// unknown (the nearest known one is suggested), or a value has the wrong type.
Experiment read_experiment(const std::filesystem::path& file,
                           const std::vector<std::string>& overrides,
                           const std::vector<std::string>& cases = {});

/// The experiment that overrides alone describe, without a file. Throws Error as read_experiment()
/// does.
Experiment experiment_of(const std::string& name, const std::vector<std::string>& overrides);

}  // namespace ringside::runner
