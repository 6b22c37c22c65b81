// Sums in which each rank owns one part of the array and adds up all ranks' values of it.
#pragma once

#include <vector>

#include "peer/comm/hosts/host_group.h"
#include "peer/comm/hosts/staging.h"
#include "peer/comm/part.h"

namespace ringside::peer {

/// A sum over all ranks as one rank sees it. Parts are those of the ranks, in their order.
struct PartSums {
  DType dtype = DType::f32;
  std::vector<Part> parts;         // elements of the array
  std::vector<std::byte*> arrays;  // of the ranks of this host, in rank order
  std::byte* target = nullptr;     // for the sum of this rank's part
  /// Whether every rank gets the sums of all parts, in its array. `target` then lies in this rank's
  /// own array.
  bool everywhere = false;
  /// Whether the parts overlap: sums are then stored only after this rank's values have been sent.
  bool overlap = false;
};

/// Ranks of other hosts send this rank its part of their arrays, segment by segment. This rank adds
/// up these and the parts of its own host in rank order, whichever hosts the ranks are on; with
/// `everywhere` it sends each segment of the sum back at once. For an array of S bytes on p ranks,
/// one a host: 1 step and S (p-1)/p sent by each rank, with `everywhere` twice that.
void sum_parts(HostGroup& host_group, Staging& staging, const PartSums& sums);

}  // namespace ringside::peer
