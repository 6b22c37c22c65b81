// Cluster: machines that are simulated, as a cluster file describes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// The largest number of devices in a cluster, because one process simulates all of them.
inline constexpr std::int64_t most_devices = 1'000'000;

/// One direction of a connection.
struct LinkSpec {
  double gbs = 0;
  double latency_us = 0;
  /// Time that one step of a collective over the link takes besides moving bytes, as in NCCL's
  /// model of latency: the link's latency and the work of the communication library.
  double step_us = 0;
  /// The share of `gbs` at which a collective over the link moves an array of so many MB (1e6
  /// bytes): (MB, share), as Efficiency::points, but over MB. Empty: 1 for arrays of any size.
  Efficiency by_mb{};
  /// What waits for the link until packets are dropped, kB (1e3 bytes), as the queue of a traffic
  /// shaper; 0: so much that it does not matter.
  double queue_kb = 0;
  /// The share of `gbs` that such a queue leaves to a collective over TCP: (kB, share), as
  /// Efficiency::points, but over queue_kb. A rank's connections share the queue, and a ring waits
  /// for the connection that drops have slowed down most. Empty: 1 for queues of any length.
  Efficiency by_queue{};
  bool operator==(const LinkSpec&) const = default;
};

/// How the devices of a machine reach each other: through PCIe, through one switch, or over links
/// between pairs of devices (in a mesh, pairs without a link use PCIe).
enum class Topology : std::uint8_t { pcie, nvlink_switch, mesh };
inline constexpr std::string_view topology_names[] = {"pcie", "switch", "mesh"};
constexpr EnumNames names_of(Topology) { return topology_names; }

/// The algorithms of collectives. nccl: rings with NCCL's latencies. shm: every rank sums its part
/// straight out of its peers' memory; summing occupies the rank's core.
enum class CollectiveKind : std::uint8_t { nccl, shm };
inline constexpr std::string_view collective_kind_names[] = {"nccl", "shm"};
constexpr EnumNames names_of(CollectiveKind) { return collective_kind_names; }

/// Which algorithms and protocols of NCCL there are (peer/comm/sim/tuning). rings: rings with the
/// protocol Simple alone. by_size: also trees between machines and the protocol LL, whichever is
/// fastest for the array.
enum class CollectiveTuning : std::uint8_t { rings, by_size };
inline constexpr std::string_view collective_tuning_names[] = {"rings", "by_size"};
constexpr EnumNames names_of(CollectiveTuning) { return collective_tuning_names; }

/// Collectives between the ranks of a cluster.
struct CollectiveSpec {
  CollectiveKind kind = CollectiveKind::nccl;
  CollectiveTuning tuning = CollectiveTuning::rings;
  double base_us = 0;  // time that every collective takes once; nccl: of the protocol Simple
  /// nccl: the rate at which a rank copies what arrives last out of the library's buffers: the p-th
  /// part of an all-reduce or all-gather of p ranks. 0: that takes no time.
  double copy_out_gbs = 0;
  /// The share of a device's speed that its operations lose while a collective moves the device's
  /// data: its kernels occupy multiprocessors. 0 for shm, whose work the cores do.
  double device_share = 0;
  /// shm: the bytes per second that one rank reads and writes while it sums and while it copies, as
  /// shares of its device's bandwidth.
  Efficiency sum{}, copy{};
  /// How far off the times of collectives and messages may be (core/sim/bounds.h).
  double error = 0;
  bool operator==(const CollectiveSpec&) const = default;
};

/// Messages between workers and servers: the time that the sender's CPU spends on a message before
/// it leaves, and the receiver's CPU after it has arrived. Both consist of a fixed time for each
/// message and a time for each MB of the message.
struct MessageSpec {
  double send_us = 0, receive_us = 0;
  double send_us_per_mb = 0, receive_us_per_mb = 0;  // MB = 1e6 bytes
  bool operator==(const MessageSpec&) const = default;
};

/// Machines [first, first + count), whose devices are not ClusterSpec::device but of another kind:
/// another DeviceSpec with the same DeviceKind.
struct OtherMachines {
  std::int64_t first = 0;
  std::int64_t count = 1;
  DeviceSpec device;
  bool operator==(const OtherMachines&) const = default;
};

/// A device whose operations all take `factor` times as long as its description says; all devices
/// of the machine if `device` is -1. Factors of several entries multiply.
struct SlowDevice {
  std::int64_t machine = 0;
  std::int64_t device = -1;
  double factor = 1;
  bool operator==(const SlowDevice&) const = default;
};

/// What all operations of a model have to be sped up by, so that its training step on one device
/// takes as long as was measured.
struct ModelSpeed {
  std::string model;      // the name of a preset
  std::string precision;  // a dtype of DeviceSpec::tflops
  double factor = 1;
  double error = 0;  // of its step, where several were measured (core/sim/bounds.h)
  bool operator==(const ModelSpeed&) const = default;
};

/// Figures of a cluster for which nothing published or measured was at hand.
struct Assumed {
  /// "device NAME", "peer", "pcie", "nic", "cluster", "collective" or "message".
  std::string part;
  /// As a cluster file calls them. "efficiency.loss" is that of every dtype of the device.
  std::vector<std::string> keys{};
  bool operator==(const Assumed&) const = default;
};

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
  /// How far off the training step of several devices may be where the step of one is known
  /// (core/sim/bounds.h).
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
  std::vector<Assumed> assumed{};  // of the parts in use; every part once
  bool operator==(const ClusterSpec&) const = default;
};

/// The share of the link's bandwidth that its queue leaves to collectives.
double share_of_queue(const LinkSpec& link);

/// Whether ranks are cores of a CPU, which reach each other's memory.
inline bool shares_memory(const ClusterSpec& cluster) {
  return cluster.collective.kind == CollectiveKind::shm;
}

/// The names of the fields are the keys of a cluster file. find_problem() checks that values lie in
/// the ranges of their fields.
Fields fields_of(LinkSpec& link);
Fields fields_of(MessageSpec& message);
Fields fields_of(CollectiveSpec& collective);
Fields fields_of(OtherMachines& others);
Fields fields_of(SlowDevice& slow);
Fields fields_of(ModelSpeed& speed);
Fields fields_of(Assumed& assumed);
Fields fields_of(ClusterSpec& cluster);

}  // namespace ringside::sim
