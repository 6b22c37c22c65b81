// Registry of what this build contains: one row for each scheme, data set, device, framework and
// library of messages. Those of models are in core/models/models.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/device/host_side.h"
#include "core/models/dataset_info.h"
#include "core/models/models.h"
#include "core/scheme/links.h"
#include "core/scheme/scheme_info.h"
#include "core/sim/cluster.h"
#include "core/sim/world.h"

namespace ringside::runner {

/// A kind of device on which ranks compute, and how ranks on devices of this kind reach each other.
/// Its properties are in core/plan/device_traits.h.
struct DeviceRow {
  std::string_view name;
  std::string_view summary;
  /// Identities of the devices of this kind that this process sees, by number; ranks take them in
  /// turn. If none can be used, throws Error that says what is missing. None for a kind whose
  /// devices need no numbers.
  std::function<std::vector<std::string>()> devices{};
  /// Throws Error that says what is missing if this program can make no device of this kind.
  std::function<void()> check = [] {};
  /// The first device of this kind on this machine, as its driver or the system calls it: what
  /// `ringside calibrate` measured holds for this alone. Throws Error where there is none. None for
  /// a kind that cannot be calibrated.
  std::function<std::string()> describe{};
  /// Returns RankPlan::environment for a rank of the plan. The plan must say on which device every
  /// rank runs, and where.
  std::function<std::vector<std::string>(const RunPlan&, int rank)> environment;
  /// Makes the device of one rank of the plan. A simulated rank lives in `world`; without a world
  /// its device is only good for checking the plan's model. Real devices ignore `world`.
  std::function<std::unique_ptr<Device>(const RunPlan&, int rank, sim::World* world)> make;
  /// Makes the host side of a device that `make` has made.
  std::function<std::unique_ptr<HostSide>(const RunPlan&, int rank, Device&)> host_side;
  /// Connects the ranks of a run whose workers compute on devices of this kind.
  Links links;
  /// Whether ranks on several hosts speak over the library that RunPlan::hosts names.
  bool hosts_library = false;
};

/// A framework whose host time simulated runs may have (sim.framework).
struct FrameworkRow {
  std::string_view name;
  std::string_view summary;
  /// By scheme: microseconds of the host that a step takes for each tensor that has a gradient,
  /// while the device waits. Schemes that are not named take none.
  std::map<std::string, double, std::less<>> gradient_us;
};

/// The cost of messages between workers and servers in simulated runs (sim.messages).
struct MessageRow {
  std::string_view name;
  std::string_view summary;
  std::optional<sim::MessageSpec> cost;  // none: as the cluster file says
};

const std::vector<SchemeInfo>& scheme_rows();
/// The part of them that PyTorch runs (experiments/python).
std::vector<SchemeInfo> torch_rows();
/// The data sets of this build; dataset_rows() has those of plug-ins too.
std::vector<DatasetInfo> own_datasets();
const std::vector<DatasetInfo>& dataset_rows();
const std::vector<DeviceRow>& device_rows();
const std::vector<FrameworkRow>& framework_rows();
const std::vector<MessageRow>& message_rows();

/// Add rows of plug-ins. Throw Error as RowList::add() does.
void add_scheme(SchemeInfo row);
void add_dataset(DatasetInfo row);

/// Returns the row of that name; a scheme's also for its former name, which older results have. If
/// there is none, throws Error that tells the most similar name and all names.
const SchemeInfo& find_scheme(std::string_view name);
const DatasetInfo& find_dataset(std::string_view name);
const DeviceRow& find_device(std::string_view name);
const FrameworkRow& find_framework(std::string_view name);
const MessageRow& find_messages(std::string_view name);

/// As find_scheme(), for experiments: a former name is refused with the present one.
const SchemeInfo& scheme_to_run(std::string_view name);

/// The default options of the scheme of that name, for reading plans and rows. Throws Error as
/// find_scheme() does.
Options default_options(const std::string& scheme);

}  // namespace ringside::runner
