// One-sided operations of simulated ranks.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "peer/comm/rma.h"
#include "peer/comm/sim/members.h"

namespace ringside::peer {

/// The state that the windows of a group share: the memory of all ranks, the transfers under way,
/// and the arrays that the ranks share. A transfer is one flow between two ranks; those of one pair
/// and direction move one after the other, and share links with all other flows. A read begins with
/// a request, which takes the latency of the route to the owner. Ranks that share the memory of a
/// CPU (CollectiveKind::shm) have no flows: the calling rank's core reads and writes, one operation
/// after the other. For each of these sequences an actor of the simulated world (a service) waits.
class SimAccesses {
 public:
  struct Transfer {
    std::size_t bytes = 0;
    RmaOperation::Kind kind = RmaOperation::Kind::get;
    int caller = 0, owner = 0;
    double begin = 0, end = 0;
    bool done = false;
    std::unique_ptr<sim::Event> changed{};
  };
  using TransferPtr = std::shared_ptr<Transfer>;

  explicit SimAccesses(SimMembers& group) : group_(group) {}

  /// Registers this rank's memory of a window; returns the number of the window. The ranks make
  /// their windows in the same order. memory() may be called once all ranks have registered.
  std::size_t expose(int rank, const Tensor& tensor);
  std::vector<Exposed> memory(std::size_t window) const;

  /// The memory of one array that all ranks share (Communicator::share): each rank that asks for
  /// its n-th array gets the same, while a rank has it. Null if there are no values.
  std::shared_ptr<std::byte> share(int rank, std::size_t bytes, bool values);

  /// Starts to move the bytes of an access of rank `caller`; await() blocks until they have moved.
  TransferPtr start(int caller, const RmaOperation& access);
  void await(const Transfer& transfer) const;
  /// Ends the services; for when all ranks have left the group.
  void end_services();

 private:
  struct Lane {
    std::deque<TransferPtr> waiting;
    std::unique_ptr<sim::Event> changed;
  };

  void serve(Lane& lane) const;
  /// Blocks for the time that the transfer takes.
  void carry(const Transfer& transfer) const;

  SimMembers& group_;
  std::map<int, std::vector<Exposed>> exposed_;  // by rank
  std::map<int, std::size_t> asked_;             // by rank, for how many shared arrays
  std::vector<std::weak_ptr<std::byte>> shared_;
  std::map<std::pair<int, int>, Lane> lanes_;  // by the ranks from which and to which bytes move
};

}  // namespace ringside::peer
