// Double binary trees through the machines of a simulated group, and their cost.
#pragma once

#include <vector>

#include "core/sim/world.h"
#include "peer/comm/sim/channels.h"
#include "peer/comm/sim/tuning.h"

namespace ringside::peer {

/// The trees by which NCCL sums between machines. In every channel each machine's ranks are a
/// chain, whose first rank is the machine's place in two binary trees (BinaryTree). Each tree
/// carries half of the channel's bytes: from the ends of the chains up to the root, and the sums
/// the same way down. A rank thus sends and receives every byte of its channel twice, as often as
/// in a ring, but for the network between two machines, which carries it once each way.
class Trees {
 public:
  /// `places` are those of the ranks, on several machines.
  Trees(sim::World& world, const std::vector<sim::Place>& places,
        const std::vector<Channel>& channels);

  /// Seconds of all steps of a row: twice the longest chain and the depth of the trees.
  double latency(const TuningRow& row) const;
  /// The seconds in which all channels sum an array of one byte each, all at the same time and
  /// without other traffic.
  double seconds_per_byte() const { return seconds_per_byte_; }

 private:
  struct Edge {
    sim::Place from, to;
  };
  sim::World& world_;
  std::vector<std::vector<Edge>> chains_;
  std::vector<Edge> between_;  // machines
  int depth_ = 0;
  double seconds_per_byte_ = 0;
};

}  // namespace ringside::peer
