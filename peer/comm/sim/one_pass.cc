// The simulation of collectives in shared memory (peer/comm/shm/communicator.cc), where every rank
// reads its peers' memory directly.
#include <algorithm>
#include <vector>

#include "peer/comm/part.h"
#include "peer/comm/sim/rings.h"
#include "peer/comm/sim/routes.h"

namespace ringside::peer {
namespace {

using Kind = Collective::Kind;

/// Bytes that a rank reads and writes on its core in one operation.
double bytes_of(const Collective& call, int rank, int size) {
  const auto whole = static_cast<double>(call.bytes);
  const std::size_t count = call.bytes / sizeof(float);
  switch (call.kind) {
    case Kind::all_reduce: {
      const auto part = static_cast<double>(part_of(count, rank, size).count * sizeof(float));
      return 2 * part * size;
    }
    case Kind::reduce_scatter:
      return whole + whole / size;
    case Kind::all_gather:
    case Kind::all_to_all:
      return 2 * whole;
    case Kind::broadcast:
      return call.root == rank ? 0 : 2 * whole;
    case Kind::barrier:
    case Kind::split:
    case Kind::expose:
    case Kind::share:
      return 0;
  }
  return 0;
}

double seconds_of(const sim::ClusterSpec& cluster, sim::Place place, const Collective& call,
                  int rank, int size) {
  const bool sums = call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter;
  return seconds_in_memory(cluster, place, bytes_of(call, rank, size), sums);
}

void serve(SimGroup& group) {
  sim::World& world = group.world();
  for (std::uint64_t number = 1;; ++number) {
    const SimGroup::OperationPtr operation = group.next(-1, number);
    if (!operation) return;
    world.sleep(world.cluster().collective.base_us * 1e-6);
    std::vector<sim::JobPtr> works;
    for (int r = 0; r < group.size(); ++r)
      works.push_back(world.start_work(
          group.place(r),
          seconds_of(world.cluster(), group.place(r), operation->call, r, group.size())));
    for (const auto& work : works) work->wait();
    group.finish_all(operation);
  }
}

}  // namespace

void serve_one_pass(const std::shared_ptr<SimGroup>& group) {
  group->world().spawn(
      group->name() + " collectives", group->place(0), [group] { serve(*group); }, true);
}

}  // namespace ringside::peer
