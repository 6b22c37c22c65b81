// Cluster: machines that are simulated, as a cluster file describes them.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ringside::sim {

/// The share of the roofline that operations of one class reach, by their ideal time on it
/// (microseconds): small ones reach less. Linear in log(time) between its points, constant beyond
/// them. May exceed 1 where data fits into caches that the device's bandwidth does not tell of.
struct Efficiency {
  std::vector<std::pair<double, double>> points{};  // (ideal microseconds, share), ascending
  double at(double ideal_us) const;
  bool operator==(const Efficiency&) const = default;
};

/// What ranks compute on. GB = 1e9 bytes, TFLOP/s = 1e12 operations a second.
struct DeviceSpec {
  std::string name;
  std::string kind = "gpu";  // gpu: one rank each; cpu: its cores are shared by its ranks
  std::int64_t cores = 1;    // that compute side by side, one a rank
  double busy_share = 1;     // of its speed that a core keeps while all of them compute
  double memory_gb = 0;      // what ranks can allocate
  double bandwidth_gbs = 0;  // of its memory; cpu: of one core
  double launch_us = 0;      // before each operation
  std::map<std::string, double> tflops{};  // by dtype: "fp32"; cpu: of one core
  /// By dtype, then by class (core/device/cost.h).
  std::map<std::string, std::map<std::string, Efficiency>> efficiency{};
  bool operator==(const DeviceSpec&) const = default;
};

/// One direction of a connection.
struct LinkSpec {
  double gbs = 0;
  double latency_us = 0;
  /// Of one step of a collective over it, the library's own work included (NCCL's latency model).
  double step_us = 0;
  bool operator==(const LinkSpec&) const = default;
};

/// How the devices of a machine reach each other: through one switch, over links of pairs (others
/// go through PCIe), or through PCIe alone.
enum class Topology : std::uint8_t { pcie, nvlink_switch, mesh };

/// Collectives between the ranks of a cluster.
struct CollectiveSpec {
  /// nccl: rings, with NCCL's latencies. shm: every rank sums its part straight out of its peers'
  /// memory, which occupies its core.
  std::string kind = "nccl";
  double base_us = 0;  // once an operation
  /// shm: bytes a second that one rank reads and writes while it sums, copies; share of its
  /// device's bandwidth.
  Efficiency sum{}, copy{};
  bool operator==(const CollectiveSpec&) const = default;
};

/// Messages between workers and servers: what the sender's and the receiver's CPU spend on each
/// message and byte, before and after it is on its way.
struct MessageSpec {
  double send_us = 0, receive_us = 0;
  double send_us_per_mb = 0, receive_us_per_mb = 0;  // MB = 1e6 bytes
  bool operator==(const MessageSpec&) const = default;
};

/// `machines` equal machines, complete: nothing is looked up in a catalog any more.
struct ClusterSpec {
  std::string name;
  std::string source;  // where its figures come from
  std::int64_t machines = 1;
  std::int64_t devices = 1;  // a machine
  DeviceSpec device;
  DeviceSpec host;  // the CPU of each machine: dedicated servers run there

  Topology topology = Topology::pcie;
  LinkSpec peer;  // a device's port of the switch, or one link of a pair
  /// Topology::mesh: pairs of devices; a pair named twice has two links.
  std::vector<std::pair<std::int64_t, std::int64_t>> mesh{};
  /// The order in which rings go through the devices of a machine; empty: 0, 1, 2, ...
  std::vector<std::int64_t> ring{};
  LinkSpec pcie;             // between a device and the host, or a NIC; for a cpu: its memory
  double pcie_root_gbs = 0;  // shared by all PCIe traffic of a machine, each way; 0: no such limit

  std::int64_t nics = 1;  // a machine; device d uses NIC d * nics / devices
  LinkSpec nic;
  /// Machines of one leaf switch of a fat tree; 0: one switch for all. `oversubscription`:
  /// bandwidth of a leaf's machines by that of its uplink.
  std::int64_t machines_per_switch = 0;
  double oversubscription = 1;

  CollectiveSpec collective;
  MessageSpec message;
  bool operator==(const ClusterSpec&) const = default;
};

/// What cannot be: of no machines, a bandwidth of 0, an efficiency of 0, a mesh of devices that
/// there are not. Which classes of operations there are is the device's business.
struct ClusterProblem {
  std::string field;   // "device.memory_gb", "peer.bandwidth_gbs", "device.efficiency.fp32.linear"
  std::string reason;  // "must be more than 0, but is -3"
};
/// The first, if there is one.
std::optional<ClusterProblem> find_problem(const ClusterSpec& cluster);
/// Throws it as an Error.
void check(const ClusterSpec& cluster);

/// What a field of a cluster is called is what its file calls it.
nlohmann::json to_json(const ClusterSpec& cluster);
/// Throws nlohmann::json::exception, or Error, for what to_json did not write.
ClusterSpec cluster_from_json(const nlohmann::json& in);

}  // namespace ringside::sim
