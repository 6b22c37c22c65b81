// Cluster: the machines of a simulation, as a cluster file describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/sim/collective_spec.h"
#include "core/sim/device_spec.h"
#include "core/sim/link_spec.h"
#include "core/sim/unlike_devices.h"

namespace ringside::sim {

/// The largest number of devices in a cluster, because one process simulates all of them.
inline constexpr std::int64_t most_devices = 1'000'000;

/// The topology between the devices of a machine: through PCIe, through one switch, or over links
/// between pairs of devices (in a mesh, pairs without a link use PCIe).
enum class Topology : std::uint8_t { pcie, nvlink_switch, mesh };
inline constexpr std::string_view topology_names[] = {"pcie", "switch", "mesh"};
constexpr EnumNames names_of(Topology) { return topology_names; }

/// The factor by which all operations of a model must be sped up so that its training step on one
/// device takes the measured time.
struct ModelSpeed {
  std::string model;      // the name of a preset
  std::string precision;  // a dtype of DeviceSpec::tflops
  double factor = 1;
  double error = 0;  // of its step, where several were measured (core/sim/stated_errors.h)
  bool operator==(const ModelSpeed&) const = default;
};

/// Figures of a cluster that are assumed, because none were published or measured.
struct Assumed {
  /// "device NAME", "peer", "pcie", "nic", "cluster", "collective", "message", "storage" or
  /// "failures".
  std::string part;
  /// As a cluster file calls them. "efficiency.loss" is that of every dtype of the device.
  std::vector<std::string> keys{};
  bool operator==(const Assumed&) const = default;
};

/// Where the machines of a cluster write checkpoints.
struct StorageSpec {
  double gbs = 0;  // of each machine's own disk, or of its way to shared storage; 0: not known
  double shared_gbs = 0;  // of all machines together; 0: no such limit
  bool operator==(const StorageSpec&) const = default;
};

Fields fields_of(StorageSpec& storage);

/// How often parts of a cluster fail, so that a run is started again: mean time between failures of
/// one such part, in hours. 0: never.
struct FailureSpec {
  double device_mtbf_h = 0;
  double machine_mtbf_h = 0;  // of all of a machine but its devices
  double restart_s = 0;       // from a failure until ranks begin to read their checkpoint
  bool operator==(const FailureSpec&) const = default;
};

Fields fields_of(FailureSpec& failures);

/// `machines` machines, which are equal but for the devices that `others` and `slow` name. Holds
/// complete descriptions of devices and links, not their names.
struct ClusterSpec {
  std::string name;
  std::string source;  // where the figures come from
  std::int64_t machines = 1;
  std::int64_t devices = 1;  // in each machine
  DeviceSpec device;
  DeviceSpec host;  // the CPU of each machine: dedicated servers run there
  /// Images a second that a machine's host decodes for all of its devices together, where runs load
  /// images from files (SimConfig::decode); 0: not known.
  double decoded_per_s = 0;
  std::vector<OtherMachines> others{};
  std::vector<SlowDevice> slow{};
  /// Models whose speed on one device is known. A model that is not among them has the geometric
  /// mean of the factors of its precision, and 1 where there are none.
  std::vector<ModelSpeed> speeds{};
  /// Operations of `device` whose times are known; all others take the time of its efficiencies.
  std::vector<TimedOperation> timed{};
  /// The error of the training step of several devices when the step of one is known
  /// (core/sim/stated_errors.h).
  double error = 0;
  /// In every training step all operations of a device take longer or shorter by one random factor:
  /// log-normal with mean 1, whose logarithm has this standard deviation (core/sim/uneven.h).
  double jitter = 0;
  /// Devices are faster or slower than their description by a factor that lasts: log-normal, whose
  /// logarithm has this standard deviation (core/sim/uneven.h).
  double spread = 0;

  Topology topology = Topology::pcie;
  LinkSpec peer;  // a device's port at the switch, or one link between two devices
  /// Topology::mesh: pairs of devices; a pair named twice has two links.
  std::vector<std::pair<std::int64_t, std::int64_t>> mesh{};
  /// The order in which rings go through the devices of a machine; empty: 0, 1, 2, ...
  std::vector<std::int64_t> ring{};
  /// From a device to the host or a NIC. If the devices are CPUs, also the memory through which the
  /// ranks of one CPU send to each other.
  LinkSpec pcie;
  double pcie_root_gbs = 0;  // shared by all PCIe traffic of a machine, each way; 0: no such limit

  std::int64_t nics = 1;  // in each machine; device d uses NIC d * nics / devices
  LinkSpec nic;
  /// Number of machines at each leaf switch of a fat tree; 0: one switch for all machines.
  /// `oversubscription`: the bandwidth of a leaf's machines divided by the bandwidth of its uplink.
  std::int64_t machines_per_switch = 0;
  double oversubscription = 1;

  CollectiveSpec collective;
  MessageSpec message;
  StorageSpec storage{};
  FailureSpec failures{};
  std::vector<Assumed> assumed{};  // of the parts in use; every part once
  bool operator==(const ClusterSpec&) const = default;
};

/// Whether ranks are cores of a CPU, which reach each other's memory.
inline bool shares_memory(const ClusterSpec& cluster) {
  return cluster.collective.kind == CollectiveKind::shm;
}

/// The names of the fields are the keys of a cluster file. find_problem() checks that values lie in
/// the ranges of their fields.
Fields fields_of(ModelSpeed& speed);
Fields fields_of(Assumed& assumed);
Fields fields_of(ClusterSpec& cluster);

}  // namespace ringside::sim
