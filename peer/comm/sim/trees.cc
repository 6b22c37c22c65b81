#include "peer/comm/sim/trees.h"

#include <algorithm>

#include "peer/comm/algorithms/binary_tree.h"
#include "peer/comm/sim/flow.h"
#include "peer/comm/sim/routes.h"

namespace ringside::peer {

Trees::Trees(sim::World& world, const std::vector<sim::Place>& places,
             const std::vector<Channel>& channels)
    : world_(world) {
  const auto place = [&](int rank) { return places[static_cast<std::size_t>(rank)]; };
  std::vector<Flow> flows;
  const auto add = [&](const Edge& edge, double share) {
    flows.push_back(flow_between(world_, edge.from, edge.to, share));
    flows.push_back(flow_between(world_, edge.to, edge.from, share));
  };
  const auto machines = static_cast<int>(channels.front().size());
  for (const Channel& channel : channels) {
    for (const std::vector<int>& chain : channel) {
      std::vector<Edge>& edges = chains_.emplace_back();
      for (std::size_t i = 1; i < chain.size(); ++i)
        add(edges.emplace_back(Edge{place(chain[i]), place(chain[i - 1])}), 1);
    }
    for (const bool second : {false, true}) {
      const BinaryTree tree(machines, second);
      depth_ = std::max(depth_, tree.height());
      for (int machine = 0; machine < machines; ++machine) {
        const int parent = tree.parent(machine);
        if (parent == BinaryTree::none) continue;
        const auto head = [&](int m) {
          return place(channel[static_cast<std::size_t>(m)].front());
        };
        add(between_.emplace_back(Edge{head(machine), head(parent)}), 0.5);
      }
    }
  }
  seconds_per_byte_ = flow_seconds_per_byte(world_.cluster(), flows);
}

double Trees::latency(const TuningRow& row) const {
  const auto step = [&](const Edge& edge) { return step_seconds(world_, edge.from, edge.to, row); };
  double longest_chain = 0, slowest = 0;
  for (const std::vector<Edge>& chain : chains_) {
    double seconds = 0;
    for (const Edge& edge : chain) seconds += step(edge);
    longest_chain = std::max(longest_chain, seconds);
  }
  for (const Edge& edge : between_) slowest = std::max(slowest, step(edge));
  return 2 * (longest_chain + depth_ * slowest);
}

}  // namespace ringside::peer
