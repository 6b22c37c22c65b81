// LinkSpec: a connection between devices or machines of a cluster.
#pragma once

#include "core/base/fields.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// One direction of a connection.
struct LinkSpec {
  double gbs = 0;
  double latency_us = 0;
  /// Time that one step of a collective over the link takes besides moving bytes, as in NCCL's
  /// model of latency: the link's latency and the work of the communication library.
  double step_us = 0;
  /// The share of `gbs` that a collective over the link reaches, by the size of its array: (MB of
  /// 1e6 bytes, share), as Efficiency::points, but over MB. Empty: 1 for arrays of any size.
  Efficiency by_mb{};
  /// The length of the link's queue, beyond which packets are dropped, as that of a traffic shaper:
  /// kB (1e3 bytes). 0: so long that nothing is dropped.
  double queue_kb = 0;
  /// The share of `gbs` that such a queue leaves to a collective over TCP: (kB, share), as
  /// Efficiency::points, but over queue_kb. A rank's connections share the queue, and a ring waits
  /// for the connection that drops have slowed down most. Empty: 1 for queues of any length.
  Efficiency by_queue{};
  bool operator==(const LinkSpec&) const = default;
};

/// The share of the link's bandwidth that its queue leaves to collectives.
double share_of_queue(const LinkSpec& link);

/// The names of the fields are the keys of a link in a cluster file.
Fields fields_of(LinkSpec& link);

}  // namespace ringside::sim
