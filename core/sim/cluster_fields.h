// Names of the fields of a cluster, given once: for its JSON, its checks and its file.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include "core/sim/cluster.h"

namespace ringside::sim {

/// What a number may be.
enum class Range : std::uint8_t { any, positive, not_negative, share };  // share: in (0, 1]

/// visit_fields(s, v) calls v(name, field, range) for the fields of a struct that are text or a
/// number; those of a const struct are const.
template <class Link, class V>
requires std::is_same_v<std::remove_const_t<Link>, LinkSpec>
void visit_fields(Link& link, V&& v) {
  v("bandwidth_gbs", link.gbs, Range::positive);
  v("latency_us", link.latency_us, Range::not_negative);
  v("step_us", link.step_us, Range::not_negative);
}

template <class Device, class V>
requires std::is_same_v<std::remove_const_t<Device>, DeviceSpec>
void visit_fields(Device& device, V&& v) {
  v("kind", device.kind, Range::any);
  v("cores", device.cores, Range::positive);
  v("busy_share", device.busy_share, Range::share);
  v("memory_gb", device.memory_gb, Range::positive);
  v("bandwidth_gbs", device.bandwidth_gbs, Range::positive);
  v("launch_us", device.launch_us, Range::not_negative);
}

template <class Message, class V>
requires std::is_same_v<std::remove_const_t<Message>, MessageSpec>
void visit_fields(Message& message, V&& v) {
  v("send_us", message.send_us, Range::not_negative);
  v("receive_us", message.receive_us, Range::not_negative);
  v("send_us_per_mb", message.send_us_per_mb, Range::not_negative);
  v("receive_us_per_mb", message.receive_us_per_mb, Range::not_negative);
}

template <class Collective, class V>
requires std::is_same_v<std::remove_const_t<Collective>, CollectiveSpec>
void visit_fields(Collective& collective, V&& v) {
  v("kind", collective.kind, Range::any);
  v("base_us", collective.base_us, Range::not_negative);
}

template <class Cluster, class V>
requires std::is_same_v<std::remove_const_t<Cluster>, ClusterSpec>
void visit_fields(Cluster& cluster, V&& v) {
  v("name", cluster.name, Range::any);
  v("source", cluster.source, Range::any);
  v("machines", cluster.machines, Range::positive);
  v("devices", cluster.devices, Range::positive);
  v("pcie_root_gbs", cluster.pcie_root_gbs, Range::not_negative);
  v("nics", cluster.nics, Range::positive);
  v("machines_per_switch", cluster.machines_per_switch, Range::not_negative);
  v("oversubscription", cluster.oversubscription, Range::positive);
}

/// "pcie", "switch", "mesh"; and back, none for another name.
std::string_view name_of(Topology topology);
std::optional<Topology> topology_of(std::string_view name);

}  // namespace ringside::sim
