// Collectives of large groups: all bytes that one rank sends to another move as one flow.
#include <utility>
#include <vector>

#include "peer/comm/sim/rings.h"

namespace ringside::peer {
namespace {

class Flows {
 public:
  explicit Flows(SimGroup& group) : group_(group), world_(group.world()), rings_(group) {}

  void run() {
    for (std::uint64_t number = 1;; ++number) {
      const SimGroup::OperationPtr operation = group_.next(-1, number);
      if (!operation) return;
      world_.sleep(rings_.once(operation->call));
      run(operation->call);
      group_.finish_all(operation);
    }
  }

 private:
  void run(const Call& call) {
    const double bytes = rings_.bytes(call);
    const double chunk = bytes / (rings_.size() * rings_.channels());
    const int once = rings_.size() - 1;
    if (call.kind == Call::Kind::broadcast)
      run(rings_.latency_of_chain(call.root), rings_.flows_of_chain(call.root),
          bytes / rings_.channels());
    else if (call.kind == Call::Kind::all_to_all)
      for (int round = 0; round < once; ++round)
        run(rings_.latency_of_round(round), rings_.flows_of_round(round), bytes / rings_.size());
    else if (goes_round_twice(call.kind))
      run(rings_.latency_twice(), rings_.flows(), 2 * once * chunk);
    else
      run(rings_.latency_once(), rings_.flows(), once * chunk);
  }

  /// Moves `bytes` over each hop. All bytes begin to move `latency` seconds from now. A flow's
  /// bytes begin to move `flow.latency` seconds after its start, so each flow is started that much
  /// earlier, flows of long latency first.
  void run(double latency, const std::vector<RingFlow>& flows, double bytes) {
    if (bytes == 0) return world_.sleep(latency);
    std::vector<sim::JobPtr> under_way;
    double left = latency;
    for (const RingFlow& flow : flows) {
      if (left > flow.latency) {
        world_.sleep(left - flow.latency);
        left = flow.latency;
      }
      under_way.push_back(world_.start_flow(flow.from, flow.to, bytes * flow.share));
    }
    for (const auto& flow : under_way) flow->wait();
  }

  SimGroup& group_;
  sim::World& world_;
  const Rings rings_;
};

}  // namespace

void serve_flows(const std::shared_ptr<SimGroup>& group) {
  group->world().spawn(
      group->name() + " collectives", group->place(0), [group] { Flows(*group).run(); }, true);
}

}  // namespace ringside::peer
