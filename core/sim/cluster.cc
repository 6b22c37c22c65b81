#include "core/sim/cluster.h"

namespace ringside::sim {

using enum Range;

double share_of_queue(const LinkSpec& link) {
  return link.queue_kb == 0 || link.by_queue.points.empty() ? 1 : link.by_queue.at(link.queue_kb);
}

Fields fields_of(LinkSpec& link) {
  return {{"bandwidth_gbs", &link.gbs, {}, positive},
          {"latency_us", &link.latency_us, {}, not_negative},
          {"step_us", &link.step_us, {}, not_negative},
          {"by_mb", &link.by_mb.points},
          {"queue_kb", &link.queue_kb, {}, not_negative},
          {"by_queue", &link.by_queue.points}};
}

Fields fields_of(MessageSpec& message) {
  return {{"send_us", &message.send_us, {}, not_negative},
          {"receive_us", &message.receive_us, {}, not_negative},
          {"send_us_per_mb", &message.send_us_per_mb, {}, not_negative},
          {"receive_us_per_mb", &message.receive_us_per_mb, {}, not_negative},
          {"network_us", &message.network_us, {}, not_negative},
          {"network_us_per_mb", &message.network_us_per_mb, {}, not_negative},
          {"loopback_us", &message.loopback_us, {}, not_negative},
          {"loopback_us_per_mb", &message.loopback_us_per_mb, {}, not_negative}};
}

Fields fields_of(CollectiveSpec& collective) {
  return {{"kind", &collective.kind},
          {"tuning", &collective.tuning},
          {"base_us", &collective.base_us, {}, not_negative},
          {"copy_out_gbs", &collective.copy_out_gbs, {}, not_negative},
          {"device_share", &collective.device_share, {}, not_negative},
          {"sum", &collective.sum.points},
          {"copy", &collective.copy.points},
          {"network_us_per_mb", &collective.network_us_per_mb, {}, not_negative},
          {"error", &collective.error, {}, not_negative}};
}

Fields fields_of(StorageSpec& storage) {
  return {{"gbs", &storage.gbs, {}, not_negative},
          {"shared_gbs", &storage.shared_gbs, {}, not_negative}};
}

Fields fields_of(FailureSpec& failures) {
  return {{"device_mtbf_h", &failures.device_mtbf_h, {}, not_negative},
          {"machine_mtbf_h", &failures.machine_mtbf_h, {}, not_negative},
          {"restart_s", &failures.restart_s, {}, not_negative}};
}

Fields fields_of(OtherMachines& others) {
  return {{"first", &others.first, {}, not_negative},
          {"count", &others.count, {}, positive},
          {"device", fields_of(others.device)}};
}

Fields fields_of(SlowDevice& slow) {
  return {{"machine", &slow.machine, {}, not_negative},
          {"device", &slow.device},
          {"factor", &slow.factor, {}, positive}};
}

Fields fields_of(ModelSpeed& speed) {
  return {{"model", &speed.model},
          {"precision", &speed.precision},
          {"factor", &speed.factor, {}, positive},
          {"error", &speed.error, {}, not_negative}};
}

Fields fields_of(Assumed& assumed) { return {{"part", &assumed.part}, {"keys", &assumed.keys}}; }

Fields fields_of(ClusterSpec& cluster) {
  return {{"name", &cluster.name},
          {"source", &cluster.source},
          {"machines", &cluster.machines, {}, positive},
          {"devices", &cluster.devices, {}, positive},
          {"device", fields_of(cluster.device)},
          {"host", fields_of(cluster.host)},
          {"decoded_per_s", &cluster.decoded_per_s, {}, not_negative},
          {"others", Structs(&cluster.others)},
          {"slow", Structs(&cluster.slow)},
          {"speeds", Structs(&cluster.speeds)},
          {"timed", Structs(&cluster.timed)},
          {"error", &cluster.error, {}, not_negative},
          {"jitter", &cluster.jitter, {}, not_negative},
          {"spread", &cluster.spread, {}, not_negative},
          {"topology", &cluster.topology},
          {"peer", fields_of(cluster.peer)},
          {"mesh", &cluster.mesh},
          {"ring", &cluster.ring},
          {"pcie", fields_of(cluster.pcie)},
          {"pcie_root_gbs", &cluster.pcie_root_gbs, {}, not_negative},
          {"nics", &cluster.nics, {}, positive},
          {"nic", fields_of(cluster.nic)},
          {"machines_per_switch", &cluster.machines_per_switch, {}, not_negative},
          {"oversubscription", &cluster.oversubscription, {}, positive},
          {"collective", fields_of(cluster.collective)},
          {"message", fields_of(cluster.message)},
          {"storage", fields_of(cluster.storage)},
          {"failures", fields_of(cluster.failures)},
          {"assumed", Structs(&cluster.assumed)}};
}

}  // namespace ringside::sim
