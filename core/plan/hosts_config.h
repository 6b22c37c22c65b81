// The [hosts] table of an experiment file: how a job of several hosts is used.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/comm/inter_host_backend.h"

namespace ringside {

/// The placement of workers: each host is filled before the next one, or all hosts get equally
/// many. Either way the workers of a host are consecutive.
enum class WorkerPlacement : std::uint8_t { fill, spread };
inline constexpr std::string_view worker_placement_names[] = {"fill", "spread"};
constexpr EnumNames names_of(WorkerPlacement) { return worker_placement_names; }

/// The placement of dedicated servers: in turn on all hosts of the job, or on hosts without
/// workers.
enum class ServerHosts : std::uint8_t { all, apart };
inline constexpr std::string_view server_hosts_names[] = {"all", "apart"};
constexpr EnumNames names_of(ServerHosts) { return server_hosts_names; }

struct HostsConfig {
  WorkerPlacement workers = WorkerPlacement::fill;
  ServerHosts servers = ServerHosts::all;
  InterHostBackend between = InterHostBackend::gloo;
  bool operator==(const HostsConfig&) const = default;
};

Fields fields_of(HostsConfig& config);

}  // namespace ringside
