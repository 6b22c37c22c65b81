// Rings through the ranks of a simulated group, and what they cost.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/sim/world.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sim/routes.h"

namespace ringside::peer {

/// Operations that are a reduce-scatter and an all-gather: 2 p - 2 steps of a ring.
constexpr bool goes_round_twice(Call::Kind kind) {
  return kind == Call::Kind::all_reduce || kind == Call::Kind::barrier || kind == Call::Kind::split;
}

/// Where bytes go, side by side: `share` of those that one hop of one ring takes.
struct RingFlow {
  sim::Place from, to;
  double latency = 0;  // of the route
  double share = 1;
};

/// The rings (channels) of a group: through the ranks machine by machine, within a machine in the
/// cluster's order. With several machines there are as many as NICs that ranks of each machine use;
/// each enters the machines through another NIC and carries its part of the bytes. Ranks of a
/// cluster that cannot be told apart by their devices go in order.
class Rings {
 public:
  explicit Rings(const SimGroup& group);

  int size() const { return static_cast<int>(places_.size()); }
  int channels() const { return static_cast<int>(rings_.size()); }
  sim::Place place(int rank) const { return places_[static_cast<std::size_t>(rank)]; }
  int next(int channel, int rank) const { return of(channel).next[static_cast<std::size_t>(rank)]; }
  int previous(int channel, int rank) const {
    return of(channel).previous[static_cast<std::size_t>(rank)];
  }
  /// Seconds of a step between two ranks, and of the fastest one of all rings.
  double fastest_step() const { return fastest_; }
  double step(int from, int to) const { return step_seconds(world_, place(from), place(to)); }

  /// Of the slowest way once (p - 1 hops) or twice (2 p - 2) round a ring; of the slowest chain
  /// from the root to the rank before it. NCCL's model counts the same hops, but for one between
  /// machines that the slowest way of p - 1 crosses and NCCL leaves out.
  double latency_once() const { return once_; }
  double latency_twice() const { return twice_; }
  double latency_of_chain(int root) const;
  /// Of round s, 0 to p - 2, of an all-to-all: every rank sends to the one s + 1 after it.
  double latency_of_round(int round) const;

  /// Flows of the same ends are one.
  const std::vector<RingFlow>& flows() const { return flows_; }
  std::vector<RingFlow> flows_of_chain(int root) const;
  std::vector<RingFlow> flows_of_round(int round) const;

  /// Seconds a byte of one hop of one ring, if all hops are under way and nothing else is: a ring
  /// moves at the pace of its slowest link, because what a fast one could pass on early comes in
  /// slices.
  double pace() const { return pace_; }
  double pace_of_chain(int root) const { return pace_of(flows_of_chain(root)); }
  double pace_of_round(int round) const { return pace_of(flows_of_round(round)); }

 private:
  struct Ring {
    std::vector<int> next, previous;  // by rank
    double total = 0;                 // steps of all hops
  };
  const Ring& of(int channel) const { return rings_[static_cast<std::size_t>(channel)]; }
  void add_ring(const std::vector<int>& order);
  double pace_of(const std::vector<RingFlow>& flows) const;
  /// Sorted: those of long latency first, since they set out first.
  std::vector<RingFlow> merged(std::vector<RingFlow> flows) const;
  RingFlow flow(int from, int to) const;

  sim::World& world_;
  std::vector<sim::Place> places_;  // by rank
  std::vector<Ring> rings_;
  double once_ = 0, twice_ = 0, fastest_ = std::numeric_limits<double>::infinity();
  std::vector<RingFlow> flows_;
  double pace_ = 0;
};

/// Start the services that run the operations of a group.
/// Message by message: each rank has a stream that begins when the rank has come.
void serve_messages(const std::shared_ptr<SimGroup>& group);
/// When all ranks have come: the latencies, then one flow for each two ranks with all the bytes
/// that go from one to the other.
void serve_flows(const std::shared_ptr<SimGroup>& group);
/// Shared memory: between two barriers every rank sums or copies its part on its core. Throws Error
/// for ranks of several machines.
void serve_one_pass(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
