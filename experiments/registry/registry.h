// What this build has: one row for each scheme, model, data set and device.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/observe/record.h"
#include "core/scheme/links.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"
#include "core/sim/world.h"

namespace ringside {

/// What the planner may ask of a scheme's options without knowing them.
struct Servers {
  int count = 0;
  bool beside = false;   // server i lives in the process of worker i; else in one of its own
  std::string device{};  // kind, of servers of their own; empty: that of the run
  bool computes_losses = false;  // there, in the run's precision
};

struct SchemeRow {
  std::string_view name;
  std::string_view summary;
  /// The options below are those of the scheme; `check` throws Error for a bad value.
  Options defaults;
  std::function<void(const Options&)> check;
  std::function<Servers(const Options&, int world)> servers;
  Promise promise = Promise::same_run;  // rows of another promise get no speed-up in throughput
  /// Most workers; 0: any number.
  int max_world = 0;
  /// Sums over ranks at every micro-batch unless told otherwise (train.reduce): with several
  /// micro-batches and ranks the gradients are added up in another order than by ranks that add up
  /// their own first.
  bool reduces_each_micro_batch = false;
  std::function<std::unique_ptr<SyncScheme>(const RankContext&, const Options&)> make;
  /// What a server rank does, until its workers are done; null for schemes without servers.
  std::function<RankRecord(const RankContext&, const Options&, Model&, const Loader&)> serve;
  /// Least bytes that the busiest rank must send a step.
  std::function<double(const Options&, const StepShape&)> minimum_bytes;
};

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  /// Throws Error for a shape that cannot be (heads that do not divide the width).
  std::function<Model(const ModelConfig&, Device&)> make;
  bool batch_norms = false;  // which model.batch_norm_group is about
};

struct Datasets {
  std::unique_ptr<Dataset> training, held_out;  // held_out may be null
};

struct DatasetRow {
  std::string_view name;
  std::string_view summary;
  /// The files that it reads, empty for what the program makes itself. Throws Error for those that
  /// are missing.
  std::function<std::vector<std::filesystem::path>(const DataConfig&)> files;
  /// Whether a file that is new below a folder of data.path belongs to it, whatever its name.
  bool any_file = false;
  /// Throws Error for a task that it cannot serve, and for files that are not what they should be.
  std::function<Datasets(const DataConfig&, const ModelConfig&, Task)> make;
};

/// What ranks compute on, and how those of one kind reach each other.
struct DeviceRow {
  std::string_view name;
  std::string_view summary;
  /// Of parameters, gradients and activations (train.precision).
  std::vector<std::string_view> precisions;
  /// How many of them this machine has, which ranks get one each in turn; 0 where they are not told
  /// apart. Throws Error that says what is missing where none can be used.
  std::function<int()> count;
  /// RankPlan::environment of a rank of the plan, whose ranks are placed.
  std::function<std::vector<std::string>(const RunPlan&, int rank)> environment;
  /// Of one rank of the plan. `world` is where simulated ranks live; null: nowhere, for looking at
  /// what the plan's model comes to.
  std::function<std::unique_ptr<Device>(const RunPlan&, int rank, sim::World* world)> make;
  /// Between the ranks of a run whose workers compute on it.
  Links links;
};

const std::vector<SchemeRow>& scheme_rows();
const std::vector<ModelRow>& model_rows();
const std::vector<DatasetRow>& dataset_rows();
const std::vector<DeviceRow>& device_rows();

/// The row of that name; throws Error that names the nearest one and all there are.
const SchemeRow& find_scheme(std::string_view name);
const ModelRow& find_model(std::string_view name);
const DatasetRow& find_dataset(std::string_view name);
const DeviceRow& find_device(std::string_view name);

/// Those of the scheme of that name, for reading plans and rows; throws as find_scheme() does.
Options default_options(const std::string& scheme);

}  // namespace ringside
