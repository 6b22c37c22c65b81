// CollectiveSpec and MessageSpec: costs of communication besides those of links, for collectives
// between ranks and for messages between workers and servers.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// The algorithms of collectives. nccl: rings with NCCL's latencies. shm: ranks on cores of CPUs.
/// Those of one machine sum and copy straight out of their peers' memory; between machines go
/// messages (peer/comm/sim/hosts.h). Both occupy the ranks' cores.
enum class CollectiveKind : std::uint8_t { nccl, shm };
inline constexpr std::string_view collective_kind_names[] = {"nccl", "shm"};
constexpr EnumNames names_of(CollectiveKind) { return collective_kind_names; }

/// The algorithms and protocols of NCCL that are simulated (peer/comm/sim/tuning). rings: rings
/// with the protocol Simple alone. by_size: also trees between machines and the protocol LL,
/// whichever is fastest for the array.
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
  /// shm, for ranks on several machines: the processor time that each end spends on a MB (1e6
  /// bytes) of a collective that goes from one machine to another.
  double network_us_per_mb = 0;
  /// The error of the times of collectives and messages (core/sim/stated_errors.h).
  double error = 0;
  bool operator==(const CollectiveSpec&) const = default;
};

/// Messages between workers and servers: the time that the sender's CPU spends on a message before
/// it leaves, and the receiver's CPU after it has arrived. Both consist of a fixed time for each
/// message and a time for each MB of the message.
struct MessageSpec {
  double send_us = 0, receive_us = 0;
  double send_us_per_mb = 0, receive_us_per_mb = 0;  // MB = 1e6 bytes
  /// Where ranks of one machine share memory (CollectiveKind::shm): each end's time for a message
  /// that goes to another machine, and for one within a machine that goes through the system's
  /// network all the same. The figures above are then those of messages through memory. 0: all
  /// messages cost the same.
  double network_us = 0, network_us_per_mb = 0, loopback_us = 0, loopback_us_per_mb = 0;
  bool operator==(const MessageSpec&) const = default;
};

/// The names of the fields are the keys of [collective] and [message] in a cluster file.
Fields fields_of(CollectiveSpec& collective);
Fields fields_of(MessageSpec& message);

}  // namespace ringside::sim
