#include "peer/comm/sim/hosts.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "peer/comm/hosts/communicator.h"
#include "peer/comm/hosts/places.h"
#include "peer/comm/hosts/staging.h"
#include "peer/comm/part.h"
#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

using Kind = Collective::Kind;

/// The moves of one collective as peer/comm/hosts makes them.
class Moves {
 public:
  Moves(const Collective& call, const std::vector<int>& machines)
      : places_(machines, 0),
        call_(call),
        whole_(static_cast<double>(call.bytes)),
        ranks_(places_.size()),
        hosts_(places_.hosts()) {
    out_.in_memory.resize(static_cast<std::size_t>(ranks_));
  }

  HostsMoves run() {
    switch (call_.kind) {
      case Kind::all_reduce:
      case Kind::reduce_scatter:
        if (call_.bytes > 0) sum();
        break;
      case Kind::all_gather:
        gather();
        break;
      case Kind::broadcast:
        broadcast();
        break;
      case Kind::all_to_all:
        exchange();
        break;
      case Kind::barrier:
      case Kind::split:
        out_.steps = std::bit_width(static_cast<unsigned>(hosts_ - 1));
        break;
      case Kind::expose:
      case Kind::share:
        break;
    }
    return std::move(out_);
  }

 private:
  bool everywhere() const { return call_.kind == Kind::all_reduce; }
  int rank_at(int host, int column) const {
    return places_.ranks(host)[static_cast<std::size_t>(column)];
  }
  double& memory_of(int rank) { return out_.in_memory[static_cast<std::size_t>(rank)]; }
  void send(int from, int to, double bytes) {
    if (bytes > 0) out_.sent.push_back({from, to, bytes});
  }
  /// Bytes of the part of the array that rank `index` of `count` sums up.
  double part(int index, int count) const {
    const auto elements = static_cast<std::size_t>(call_.bytes / sizeof(float));
    return static_cast<double>(part_of(elements, index, count).count * sizeof(float));
  }

  void sum() {
    if (places_.contiguous() && !places_.alone_everywhere()) return sum_along_chain();
    if (everywhere() && sums_whole(call_.bytes, ranks_)) {
      out_.steps = 1;
      for (const int rank : {0, 1}) {
        send(rank, 1 - rank, whole_);
        memory_of(rank) = 3 * whole_;
      }
      return;
    }
    out_.steps = everywhere() ? 2 : 1;
    for (int from = 0; from < ranks_; ++from) {
      const double own = part(from, ranks_);
      memory_of(from) = (ranks_ + 1) * own;
      for (int to = 0; to < ranks_; ++to)
        if (places_.host_of(from) != places_.host_of(to))
          send(from, to, part(to, ranks_) + (everywhere() ? own : 0));
    }
  }

  void sum_along_chain() {
    const int hops = hosts_ - 1;
    out_.steps = 2 * hops;
    for (int column = 0; column < places_.columns(); ++column) {
      const double bytes = part(column, places_.columns());
      const double segment = std::min(bytes, static_cast<double>(segment_bytes));
      const double alone = (out_.steps - 1) * segment;
      for (int host = 0; host < hosts_; ++host) {
        const auto here = static_cast<double>(places_.ranks(host).size());
        memory_of(rank_at(host, column)) = bytes * (1 + (everywhere() ? 2 : 1) * here);
        if (host == hops) continue;
        send(rank_at(host, column), rank_at(host + 1, column), bytes + alone);
        // Sums that have an owner come back as far as the owner.
        const double back = everywhere() ? bytes : bytes * owned_below(host + 1);
        send(rank_at(host + 1, column), rank_at(host, column), back + alone);
      }
    }
  }

  /// The share of the ranks that live on hosts before `host`.
  double owned_below(int host) const {
    double ranks = 0;
    for (int below = 0; below < host; ++below)
      ranks += static_cast<double>(places_.ranks(below).size());
    return ranks / ranks_;
  }

  void gather() {
    out_.steps = 1;
    const double own = whole_ / ranks_;
    for (int rank = 0; rank < ranks_; ++rank) {
      const int column = places_.column_of(rank), host = places_.host_of(rank);
      const auto here = static_cast<double>(places_.ranks(host).size());
      // The rank copies the parts of its host, and hands on what comes from others.
      memory_of(rank) = 2 * own * here + 2 * (whole_ - own * here) * (here - 1) / here;
      for (int other = 0; other < hosts_; ++other)
        if (other != host) send(rank_at(host, column), rank_at(other, column), own);
    }
  }

  void broadcast() {
    const int root = places_.host_of(call_.root), hops = hosts_ - 1;
    out_.steps = hops;
    for (int rank = 0; rank < ranks_; ++rank) memory_of(rank) = rank == call_.root ? 0 : 2 * whole_;
    for (int column = 0; column < places_.columns(); ++column) {
      const double bytes = part(column, places_.columns());
      const double alone = (hops - 1) * std::min(bytes, static_cast<double>(segment_bytes));
      for (int hop = 0; hop < hops; ++hop)
        send(rank_at((root + hop) % hosts_, column), rank_at((root + hop + 1) % hosts_, column),
             bytes + alone);
    }
  }

  void exchange() {
    out_.steps = 1;
    for (int from = 0; from < ranks_; ++from) {
      memory_of(from) = 2 * whole_;
      for (int to = 0; to < ranks_; ++to)
        if (places_.host_of(from) != places_.host_of(to)) send(from, to, whole_ / ranks_);
    }
  }

  const Places places_;
  const Collective call_;
  const double whole_;
  const int ranks_, hosts_;
  HostsMoves out_;
};

void run(SimGroup& group, const Collective& call) {
  sim::World& world = group.world();
  const sim::ClusterSpec& cluster = world.cluster();
  const std::vector<int> machines = group.hosts();
  const HostsMoves moves = moves_between_hosts(call, machines);
  double base = 0;  // ranks of one machine also wait for each other
  if (!Places(machines, 0).alone_everywhere()) base = cluster.collective.base_us;
  world.sleep(1e-6 * (base + moves.steps * cluster.nic.step_us));
  const bool sums = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
  std::vector<double> busy(machines.size());
  for (std::size_t r = 0; r < machines.size(); ++r)
    busy[r] =
        seconds_in_memory(cluster, group.place(static_cast<int>(r)), moves.in_memory[r], sums);
  std::vector<sim::JobPtr> jobs;
  for (const HostsMoves::Sent& one : moves.sent) {
    const double seconds = 1e-12 * cluster.collective.network_us_per_mb * one.bytes;
    busy[static_cast<std::size_t>(one.from)] += seconds;
    busy[static_cast<std::size_t>(one.to)] += seconds;
    jobs.push_back(world.start_flow(group.place(one.from), group.place(one.to), one.bytes));
  }
  for (std::size_t r = 0; r < busy.size(); ++r)
    jobs.push_back(world.start_work(group.place(static_cast<int>(r)), busy[r]));
  for (const auto& job : jobs) job->wait();
}

}  // namespace

HostsMoves moves_between_hosts(const Collective& call, const std::vector<int>& machines) {
  return Moves(call, machines).run();
}

void serve_hosts(const std::shared_ptr<SimGroup>& group) {
  group->world().spawn(
      group->name() + " collectives", group->place(0),
      [group] {
        for (std::uint64_t number = 1;; ++number) {
          const SimGroup::OperationPtr operation = group->next(-1, number);
          if (!operation) return;
          run(*group, operation->call);
          group->finish_all(operation);
        }
      },
      true);
}

}  // namespace ringside::peer
