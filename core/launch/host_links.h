// HostLinks: what this system knows about its TCP connections with another host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ringside {

/// All connections with one other host together, whichever processes have them.
struct LinkFacts {
  double round_trip_s = 0;  // the longest of their mean round trips, queues on the way included
  /// Segments with data that have come since the connections began; each is life of that host, even
  /// where a message is not complete yet.
  std::uint64_t segments = 0;
};

/// Asks the system, which may know nothing.
using LookAtLinks = std::function<LinkFacts()>;

/// Looks at the connections between this network namespace and an IPv4 address, by sock_diag(7),
/// which every user may ask. Facts are zero where the system does not answer, and for an empty
/// address. Does not block.
LookAtLinks links_with(const std::string& address);

}  // namespace ringside
