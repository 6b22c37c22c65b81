// Sums along a chain of hosts: prefix sums from host to host, and the whole sums back.
#pragma once

#include <vector>

#include "peer/comm/hosts/host_group.h"
#include "peer/comm/hosts/staging.h"

namespace ringside::peer {

/// A part of the arrays of all ranks that moves along the chain in one message.
struct ChainPiece {
  std::size_t begin = 0, count = 0;  // elements
  int lowest = 0;  // the first host that needs the sum, and the last on its way back
  /// The memory for sums on this host on their way up and down; null: a slot of their own.
  std::byte* home = nullptr;
  /// The destinations of the sum on this host; the first is `home`, if there is one. Empty on hosts
  /// that do not need the sum.
  std::vector<std::byte*> targets{};
};

/// One column of a collective on this rank: adds `arrays`, those of this host's ranks in order, to
/// the sum from the host below, and sends the result up; on the last host, whole sums begin to come
/// back. Hosts stand in the order of ranks. Each host passes `pieces` of the same parts, in the
/// same order. While a piece is summed, others arrive and leave. The sum of a piece comes back
/// about two steps later for each host above, and is then passed down. Blocks until all pieces are
/// over. For H hosts: 2 (H-1) steps and one a piece; the column crosses each link once each way.
void sum_along_chain(HostGroup& host_group, Staging& staging, DType dtype,
                     const std::vector<const std::byte*>& arrays,
                     const std::vector<ChainPiece>& pieces);

}  // namespace ringside::peer
