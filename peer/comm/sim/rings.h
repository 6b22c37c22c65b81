// Rings through the ranks of a simulated group, and what they cost.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/sim/world.h"
#include "peer/comm/sim/busy.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sim/routes.h"

namespace ringside::peer {

/// Whether the operation is a reduce-scatter and then an all-gather: 2 * p - 2 steps of a ring of p
/// ranks.
constexpr bool goes_round_twice(Call::Kind kind) {
  return kind == Call::Kind::all_reduce || kind == Call::Kind::barrier || kind == Call::Kind::split;
}

/// The rings (channels) of a group. In one machine whose devices are a mesh they are those of
/// rings_in_mesh(). Otherwise a ring leads through the ranks machine by machine, and within a
/// machine in the order of devices that the cluster gives (ClusterSpec::ring); ranks on the same
/// device follow each other in rank order. On one machine there is then one ring. On several
/// machines there are as many rings as the ranks of a machine use NICs (the least number of all
/// machines); each ring enters a machine through a NIC of its own and carries an equal part of the
/// bytes.
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

  /// The bytes of the operation's array, multiplied so that their flows take as long as the link's
  /// curve by size and its queue say.
  double bytes(const Call& call) const;
  /// Seconds that an operation takes once: the base latency, and copying out what arrives last.
  double once(const Call& call) const;
  /// Seconds of latency in a group of p ranks. latency_once(): the slowest way once round a ring
  /// (p - 1 hops). latency_twice(): the slowest way twice round a ring (2 * p - 2 hops).
  /// latency_of_chain(): the slowest way of a broadcast, from the root to the rank before it.
  /// NCCL's own model of latency counts the same number of hops. But on several machines, in
  /// every p - 1 hops, it counts one hop more within machines and one hop fewer between machines.
  double latency_once() const { return once_; }
  double latency_twice() const { return twice_; }
  double latency_of_chain(int root) const;
  /// Seconds of latency of an all-to-all's round s, where s is from 0 to p - 2. In this round every
  /// rank r sends to rank (r + s + 1) mod p.
  double latency_of_round(int round) const;

  /// The flows of all rings; flows with the same two ends are merged. Where a few machines can
  /// stand for all (SimOptions::machines), only the flows of these.
  const std::vector<RingFlow>& flows() const { return flows_; }
  std::vector<RingFlow> flows_of_chain(int root) const;
  std::vector<RingFlow> flows_of_round(int round) const;

  /// The seconds in which every hop of every ring moves one byte, all at the same time and without
  /// other traffic. A ring moves at the pace of its slowest link, because a fast link gets its
  /// bytes slice by slice from slower links and cannot pass them on earlier. pace_of_chain() and
  /// pace_of_round() are the same for the hops of a broadcast and of an all-to-all's round.
  double pace() const { return pace_; }
  double pace_of_chain(int root) const { return pace_of(flows_of_chain(root)); }
  double pace_of_round(int round) const { return pace_of(flows_of_round(round)); }

 private:
  struct Ring {
    std::vector<int> next, previous;  // by rank
    double total = 0;                 // seconds of latency of all hops
  };
  const Ring& of(int channel) const { return rings_[static_cast<std::size_t>(channel)]; }
  void add_rings_by_machine();
  void add_ring(const std::vector<int>& order);
  double pace_of(const std::vector<RingFlow>& flows) const {
    return busiest_link_seconds(world_.cluster(), flows);
  }
  /// Merges flows with the same two ends. Returns flows of long latency first, because they are
  /// started first.
  std::vector<RingFlow> merged(std::vector<RingFlow> flows) const;
  RingFlow flow(int from, int to) const;

  sim::World& world_;
  std::vector<sim::Place> places_;  // indexed by rank
  const sim::Efficiency* by_mb_ = nullptr;
  double queue_share_ = 1;
  std::vector<Ring> rings_;
  double once_ = 0, twice_ = 0, fastest_ = std::numeric_limits<double>::infinity();
  std::vector<RingFlow> flows_;
  double pace_ = 0;
};

/// These functions start the services that run a group's operations. serve_messages() simulates
/// every message of an operation; each rank begins when it has come.
void serve_messages(const std::shared_ptr<SimGroup>& group);
/// For each operation the service waits until all ranks have come and lets the latencies pass. Then
/// all bytes that one rank sends to another move as one flow.
void serve_flows(const std::shared_ptr<SimGroup>& group);
/// Simulates collectives in shared memory: between two barriers every rank sums or copies its part
/// on its own core. Throws Error if the ranks are on several machines.
void serve_one_pass(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
