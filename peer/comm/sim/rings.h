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

/// Whether the operation is a reduce-scatter and then an all-gather: 2 p - 2 steps of a ring.
constexpr bool goes_round_twice(Call::Kind kind) {
  return kind == Call::Kind::all_reduce || kind == Call::Kind::barrier || kind == Call::Kind::split;
}

/// A flow of bytes between two places, at the same time as others. `share` is its part of the bytes
/// that one hop of one ring carries.
struct RingFlow {
  sim::Place from, to;
  double latency = 0;  // of the route
  double share = 1;
};

/// The rings (channels) of a group. A ring leads through the ranks machine by machine, and within a
/// machine in the cluster's order. With several machines there are as many rings as NICs that the
/// ranks of each machine use; each ring enters the machines through another NIC and carries its
/// part of the bytes. Ranks that cannot be told apart by their devices go in rank order.
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
  /// fastest_step(): seconds of the fastest step of all rings. step(): seconds of a step between
  /// two ranks.
  double fastest_step() const { return fastest_; }
  double step(int from, int to) const { return step_seconds(world_, place(from), place(to)); }

  /// Seconds of latency: of the slowest way once (p - 1 hops) or twice (2 p - 2 hops) round a ring,
  /// and of the slowest chain from the root to the rank before it. NCCL's model counts the same
  /// hops except one: the slowest way of p - 1 hops crosses a hop between machines that NCCL leaves
  /// out.
  double latency_once() const { return once_; }
  double latency_twice() const { return twice_; }
  double latency_of_chain(int root) const;
  /// Seconds of latency of round s of an all-to-all, s from 0 to p - 2: every rank sends to the
  /// rank s + 1 after itself.
  double latency_of_round(int round) const;

  /// The flows of all rings; flows with the same two ends are merged.
  const std::vector<RingFlow>& flows() const { return flows_; }
  std::vector<RingFlow> flows_of_chain(int root) const;
  std::vector<RingFlow> flows_of_round(int round) const;

  /// Seconds a byte of one hop of one ring while all hops are under way and nothing else is. A ring
  /// moves at the pace of its slowest link, because a fast link gets its bytes slice by slice and
  /// cannot pass them on earlier.
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
  /// Merged and sorted: flows of long latency come first, since they set out first.
  std::vector<RingFlow> merged(std::vector<RingFlow> flows) const;
  RingFlow flow(int from, int to) const;

  sim::World& world_;
  std::vector<sim::Place> places_;  // indexed by rank
  std::vector<Ring> rings_;
  double once_ = 0, twice_ = 0, fastest_ = std::numeric_limits<double>::infinity();
  std::vector<RingFlow> flows_;
  double pace_ = 0;
};

/// These functions start the services that run a group's operations. serve_messages() runs them
/// message by message: each rank has a stream that begins when the rank has come.
void serve_messages(const std::shared_ptr<SimGroup>& group);
/// Waits until all ranks have come, then lets the latencies pass, then runs one flow for each pair
/// of ranks with all bytes that go from the one to the other.
void serve_flows(const std::shared_ptr<SimGroup>& group);
/// Shared memory: between two barriers every rank sums or copies its part on its core. Throws Error
/// if the ranks are on several machines.
void serve_one_pass(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
