// What this build contains: one row for each scheme, model, data set, device,
// framework and library of messages.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/device/host_side.h"
#include "core/observe/record.h"
#include "core/scheme/links.h"
#include "core/scheme/scheme.h"
#include "core/scheme/step_shape.h"
#include "core/sim/cluster.h"
#include "core/sim/world.h"

namespace ringside {

/// What the planner may know about a scheme's servers without knowing the scheme's options.
struct Servers {
  int count = 0;
  int beside = 0;        // servers 0 to beside - 1 run in processes of workers (workers_beside())
  int group = 1;         // so many consecutive workers push as one
  std::string device{};  // device kind of dedicated servers; empty: the run's device kind
};

/// Among how many ranks a scheme divides each part of a model's state.
struct StateDivision {
  int parameters = 1, gradients = 1, optimizer = 1;
};

struct SchemeRow {
  std::string_view name;
  std::string_view summary;
  /// The scheme's own options with their defaults. `check`, and the functions below, take options
  /// of this type; `check` throws Error for a bad value.
  Options defaults;
  /// Throws Error for a bad value of an option, and for a plan with which the scheme cannot do what
  /// it promises. Called before the plan has ranks.
  std::function<void(const Options&, const RunPlan&)> check;
  std::function<Servers(const Options&, int world)> servers;
  /// What a run with these options promises; reports give a speed-up for the same run alone.
  std::function<Promise(const Options&)> promise;
  /// The largest number of workers; 0 if any number will do.
  int max_world = 0;
  /// How much of what its workers keep the scheme can offload to the host (train.offload).
  Offload offloads = Offload::none;
  /// Whether train.reduce = "auto" means "every": the scheme sums over ranks after every
  /// micro-batch. With several micro-batches and ranks this adds the gradients up in another order
  /// than if each rank added up its own gradients first.
  bool reduces_each_micro_batch = false;
  /// Whether the scheme knows train.reduce_precision.
  bool converts_gradients = false;
  std::function<std::unique_ptr<SyncScheme>(const RankContext&, const Options&)> make;
  /// Of a scheme whose ranks another program runs: that program, and how the environment of each
  /// rank's process differs from the launcher's (RankPlan::environment). Such a scheme has no
  /// `make`. Null for schemes of our own.
  std::function<OtherProgram(const Options&)> program;
  std::function<std::vector<std::string>(const RunPlan&)> environment;
  /// Whether a run of the plan promises the same run as `single` but adds gradients up in an order
  /// of its own, in which `define` adds them up too. Called for plans that are complete but for
  /// their ranks.
  std::function<bool(const Options&, const RunPlan&)> own_order;
  /// Makes the definition of a scheme that has an algorithm, or an order of sums, of its own. One
  /// rank runs the definition in place of RunPlan::defines workers. With Promise::replayed it
  /// repeats RunPlan::history. Null for schemes whose definition is always `single`.
  std::function<std::unique_ptr<SyncScheme>(const RankContext&, const Options&)> define;
  /// How many of its workers a run can lose and still go on.
  std::function<int(const Options&, int world)> expendable;
  /// What a server rank runs; blocks until its workers are done. Null for schemes without servers.
  std::function<RankRecord(const RankContext&, const Options&, Model&, const Loader&)> serve;
  /// The fewest bytes that the busiest rank must send in a step.
  std::function<double(const Options&, const StepShape&)> minimum_bytes;
  /// Among how many of its workers the scheme divides the state of the model, as Rajbhandari et al.
  /// (SC'20, section 5) count it. Null for schemes of which the paper says nothing.
  std::function<StateDivision(const Options&, int world)> divides;
};

/// What a run of the scheme with its default options promises.
inline Promise default_promise(const SchemeRow& row) { return row.promise(row.defaults); }

/// A row for a scheme whose options are all valid, which has no servers, and which promises the
/// same run as `single`.
SchemeRow plain_row(std::string_view name, std::string_view summary, Options defaults);

struct ModelRow {
  std::string_view name;
  std::string_view summary;
  /// Makes the model. Throws Error for an impossible shape (a width that the heads do not divide).
  std::function<Model(const ModelConfig&, Device&)> make;
  bool batch_norms = false;  // whether it has batch norms; if not, batch_norm_group must be 1
  bool attention = false;    // whether it has attention; if not, nothing of it can be recomputed
};

struct Datasets {
  std::unique_ptr<Dataset> training, held_out;  // held_out may be null
};

struct DatasetRow {
  std::string_view name;
  std::string_view summary;
  /// The files that the data set reads; empty for data that the program makes itself. Throws Error
  /// for missing files.
  std::function<std::vector<std::filesystem::path>(const DataConfig&)> files;
  /// Whether any new file in a folder of data.path becomes part of the data, whatever its name.
  bool any_file = false;
  /// Makes both parts. Throws Error for a task that the data cannot serve, and for files with wrong
  /// content.
  std::function<Datasets(const DataConfig&, const ModelConfig&, Task)> make;
};

/// A kind of device on which ranks compute, and how ranks on devices of this kind reach each other.
struct DeviceRow {
  std::string_view name;
  std::string_view summary;
  /// How many devices of this kind the machine has; ranks take them in turn. 0 if the devices need
  /// no numbers. If none can be used, throws Error that says what is missing.
  std::function<int()> count;
  /// Returns RankPlan::environment for a rank of the plan. The plan must say on which device every
  /// rank runs.
  std::function<std::vector<std::string>(const RunPlan&, int rank)> environment;
  /// Makes the device of one rank of the plan. A simulated rank lives in `world`; without a world
  /// its device is only good for checking the plan's model. Real devices ignore `world`.
  std::function<std::unique_ptr<Device>(const RunPlan&, int rank, sim::World* world)> make;
  /// Makes the host side of a device that `make` has made.
  std::function<std::unique_ptr<HostSide>(const RunPlan&, int rank, Device&)> host_side;
  /// Connects the ranks of a run whose workers compute on devices of this kind.
  Links links;
  /// Whether ranks of a host map the tensors of such devices, so that servers may read them where
  /// they lie. Simulated ranks do as real ones that can.
  bool shares_memory = false;
};

/// A framework whose host time simulated runs may have (sim.framework).
struct FrameworkRow {
  std::string_view name;
  std::string_view summary;
  /// By scheme: microseconds of the host that a step takes for each tensor that has a gradient,
  /// while the device waits. Schemes that are not named take none.
  std::map<std::string, double, std::less<>> gradient_us;
};

/// What messages between workers and servers cost in simulated runs (sim.messages).
struct MessageRow {
  std::string_view name;
  std::string_view summary;
  std::optional<sim::MessageSpec> cost;  // none: as the cluster file says
};

const std::vector<SchemeRow>& scheme_rows();
/// The part of them that PyTorch runs (experiments/peers).
std::vector<SchemeRow> torch_rows();
const std::vector<ModelRow>& model_rows();
const std::vector<DatasetRow>& dataset_rows();
const std::vector<DeviceRow>& device_rows();
const std::vector<FrameworkRow>& framework_rows();
const std::vector<MessageRow>& message_rows();

/// Returns the row of that name. If there is none, throws Error that tells the most similar name
/// and all names.
const SchemeRow& find_scheme(std::string_view name);
const ModelRow& find_model(std::string_view name);
const DatasetRow& find_dataset(std::string_view name);
const DeviceRow& find_device(std::string_view name);
const FrameworkRow& find_framework(std::string_view name);
const MessageRow& find_messages(std::string_view name);

/// The default options of the scheme of that name, for reading plans and rows. Throws Error as
/// find_scheme() does.
Options default_options(const std::string& scheme);

}  // namespace ringside
