// Rings through the ranks of a simulated group, and their cost.
#pragma once

#include <memory>
#include <vector>

#include "core/sim/world.h"
#include "peer/comm/sim/channels.h"
#include "peer/comm/sim/flow.h"
#include "peer/comm/sim/group.h"
#include "peer/comm/sim/routes.h"
#include "peer/comm/sim/tuning.h"

namespace ringside::peer {

/// Whether the operation is a reduce-scatter and then an all-gather: 2 * p - 2 steps of a ring of p
/// ranks.
constexpr bool goes_round_twice(Collective::Kind kind) {
  return kind == Collective::Kind::all_reduce || kind == Collective::Kind::barrier ||
         kind == Collective::Kind::split;
}

/// The rings (channels) of a group. In one machine whose devices are a mesh they are those of
/// rings_in_mesh(). Otherwise a ring leads through the machines one after the other, as
/// channels_of() says, and carries an equal part of the bytes.
///
/// With CollectiveTuning::by_size, all-reduces, reduce-scatters and all-gathers may take another
/// protocol, and all-reduces of several machines may take trees through these channels: whichever
/// way is fastest for the array.
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
  /// The way on which the operation's data moves; not for broadcasts and all-to-alls, which always
  /// move over rings with the protocol Simple.
  const Way& way(const Collective& call) const;
  /// fastest_step(): seconds of the fastest step of all rings. step(): seconds of a step between
  /// two ranks.
  double fastest_step(const TuningRow& row) const { return latencies(row).fastest; }
  double step(int from, int to, const TuningRow& row = tuning_rows().front()) const {
    return step_seconds(world_, place(from), place(to), row);
  }

  /// The bytes of the operation's array, scaled so that their flows take the time that follows from
  /// the link's curve by size, its queue and the operation's way.
  double bytes(const Collective& call) const;
  /// The fixed seconds of an operation: the base latency, and copying out the last data.
  double once(const Collective& call) const;
  /// Seconds of latency of a broadcast in a group of p ranks: the slowest path from the root to the
  /// rank before it. The latency of a reduce-scatter or all-gather is in Way::latency: the slowest
  /// path once round a ring (p - 1 hops). So is that of an all-reduce: twice round a ring
  /// (2 * p - 2 hops). NCCL's own model of latency counts the same number of hops. But on several
  /// machines, in every p - 1 hops, it counts one hop more within machines and one hop fewer
  /// between machines.
  double latency_of_chain(int root) const;
  /// Seconds of latency of an all-to-all's round s, where s is from 0 to p - 2. In this round every
  /// rank r sends to rank (r + s + 1) mod p.
  double latency_of_round(int round) const;

  /// The flows of all rings; flows with the same two ends are merged. If a few machines can
  /// represent all (SimOptions::machines), only the flows of these.
  const std::vector<Flow>& flows() const { return flows_; }
  std::vector<Flow> flows_of_chain(int root) const;
  std::vector<Flow> flows_of_round(int round) const;

  /// The seconds in which every hop of every ring moves one byte, all at the same time and without
  /// other traffic. The slowest link decides, because a fast link gets its bytes slice by slice
  /// from slower links and cannot pass them on earlier. seconds_per_byte_of_chain() and
  /// seconds_per_byte_of_round() are the same for the hops of a broadcast and of an all-to-all's
  /// round.
  double seconds_per_byte() const { return seconds_per_byte_; }
  double seconds_per_byte_of_chain(int root) const {
    return flow_seconds_per_byte(world_.cluster(), flows_of_chain(root));
  }
  double seconds_per_byte_of_round(int round) const {
    return flow_seconds_per_byte(world_.cluster(), flows_of_round(round));
  }

 private:
  struct Ring {
    std::vector<int> next, previous;  // by rank
    double total = 0;                 // seconds of all hops' steps, of the protocol Simple
  };
  /// Seconds of the steps of all rings, by the row of the steps.
  struct Latencies {
    double once = 0, twice = 0, fastest = sim::for_ever;
  };
  const Ring& of(int channel) const { return rings_[static_cast<std::size_t>(channel)]; }
  const Latencies& latencies(const TuningRow& row) const {
    return latencies_[static_cast<std::size_t>(&row - tuning_rows().data())];
  }
  void add_ring(const std::vector<int>& order);
  void add_ways(const std::vector<Channel>& channels, bool several_machines);
  Flow flow(int from, int to) const { return flow_between(world_, place(from), place(to)); }
  bool chooses(const Collective& call) const;

  sim::World& world_;
  std::vector<sim::Place> places_;  // indexed by rank
  const sim::Efficiency* by_mb_ = nullptr;
  double queue_share_ = 1;
  std::vector<Ring> rings_;
  std::vector<Latencies> latencies_;          // by row of tuning_rows()
  std::vector<Way> round_once_, all_reduce_;  // ways once round a ring; ways of all-reduces
  std::vector<Flow> flows_;
  double seconds_per_byte_ = 0;
};

/// These functions start the services that run a group's operations. serve_messages() simulates
/// every message of an operation; each rank begins when it has come.
void serve_messages(const std::shared_ptr<SimGroup>& group);
/// For each operation the service waits until all ranks have come and lets the latencies pass. Then
/// all bytes that one rank sends to another move as one flow.
void serve_flows(const std::shared_ptr<SimGroup>& group);
/// Simulates collectives in shared memory: between two barriers every rank sums or copies its part
/// on its own core. All ranks live on one machine.
void serve_one_pass(const std::shared_ptr<SimGroup>& group);

}  // namespace ringside::peer
