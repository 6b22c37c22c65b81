// Collectives of large groups: all bytes that one rank sends to another move as one flow.
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
  void run(const Collective& call) {
    const double bytes = rings_.bytes(call);
    if (call.kind == Collective::Kind::broadcast)
      return move_flows(world_, rings_.latency_of_chain(call.root),
                        rings_.flows_of_chain(call.root), bytes / rings_.channels());
    if (call.kind != Collective::Kind::all_to_all) {
      const Way& way = rings_.way(call);
      return move_flows(world_, way.latency, rings_.flows(), way.over_hop * bytes);
    }
    for (int round = 0; round + 1 < rings_.size(); ++round)
      move_flows(world_, rings_.latency_of_round(round), rings_.flows_of_round(round),
                 bytes / rings_.size());
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
