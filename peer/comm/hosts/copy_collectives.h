// Collectives of several hosts that move values without summing them.
#pragma once

#include <vector>

#include "peer/comm/hosts/host_group.h"
#include "peer/comm/hosts/staging.h"

namespace ringside::peer {

/// The operands of the ranks of this host, in rank order; `in` and `out` of a broadcast are the
/// same arrays.
struct HostArrays {
  std::vector<std::byte*> in, out;
};

/// Fills this rank's `out` with the parts, of `bytes` bytes each, of all ranks. Ranks of this host
/// copy from each other; each rank receives the parts of its column from other hosts, for all ranks
/// of its host. S (H-1)/H bytes leave each of H hosts; 1 step.
void gather_parts(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes);

/// Fills `bytes` bytes of the `in` of all ranks of this host with those of rank `root`. Each column
/// passes from host to host in a circle, which begins at the root's host. S bytes leave each of H
/// hosts but the last; H-1 steps, and one for every segment.
void copy_from_root(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes, int root);

/// Fills part r of this rank's `out` with part `rank` of rank r's `in`; parts have `bytes` bytes.
/// Each rank sends S (p-1)/p; 1 step.
void exchange_parts(HostGroup& host_group, const HostArrays& arrays, std::size_t bytes);

}  // namespace ringside::peer
