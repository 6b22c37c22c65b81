// Where the simulated ranks of a group meet: operations by number, who came, who is missing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/sim/sim_device.h"
#include "peer/comm/call.h"
#include "peer/comm/sim/members.h"
#include "peer/comm/sim/messages.h"

namespace ringside::peer {

/// One object for all ranks of a group; a world's actors run one at a time, so nothing is locked.
/// Ranks call operations and wait for them; services of the world, which the algorithm started,
/// let time pass for them and finish them. Errors are found by who waits, at the operation's turn,
/// and break the group: all ranks then throw the same text.
class SimGroup : public SimMembers {
 public:
  /// A collective as one rank called it.
  struct Entry {
    Call call;
    Tensor in, out;      // kept until the operation's end
    double arrival = 0;  // of the rank, in the world's seconds
    double end = 0;
    bool here = false;      // the rank came
    bool finished = false;  // its part of the algorithm is over
  };
  struct Operation {
    std::uint64_t number = 0;
    Call call;                   // of the first who came
    std::vector<Entry> entries;  // by rank
    int arrived = 0, finished = 0, ended = 0;
    std::string mismatch;  // ranks called different operations
    std::unique_ptr<sim::Event> changed;
  };
  using OperationPtr = std::shared_ptr<Operation>;

  /// Blocks until all ranks of the group are here, at most the timeout; the last one starts the
  /// services of the group. Throws Error that names the missing ranks.
  static std::shared_ptr<SimGroup> join(
      sim::SimDevice& device, const Group& group, const SimOptions& options,
      const std::function<void(const std::shared_ptr<SimGroup>&)>& start_services);
  SimMessages& messages() { return messages_; }

  // ---- for ranks

  /// The rank comes to its next operation. Throws Error if the group is broken.
  OperationPtr call(int rank, const Call& call, const Tensor& in, const Tensor& out);
  /// Blocks until the rank's part of the operation has ended. Throws Error.
  void await(const Operation& operation, int rank);
  /// Whether the operation and all before it have ended for the rank.
  bool ended(const Operation& operation, int rank) const {
    return progress(rank).ended >= operation.number;
  }
  /// An exception takes a rank away: all let go of their tensors and the group is broken, without
  /// a call of the world, which may be ending the actor. Who waits learns of it at the latest when
  /// its deadline is over.
  void abandon(int rank, const std::string& what);
  /// The rank will come to nothing any more. `unwinding`: as for abandon().
  void leave(int rank, bool unwinding);

  // ---- for services

  /// Blocks until the rank has come to operation `number`, or, without a rank (-1), all have. None
  /// if it is of no use any more.
  OperationPtr next(int rank, std::uint64_t number);
  bool usable(const Operation& operation) const {
    return broken_.empty() && operation.mismatch.empty();
  }
  /// The rank's part ends now, or once all ranks have come. The first end moves the values for all.
  void finish(const OperationPtr& operation, int rank);
  void finish_all(const OperationPtr& operation);

 private:
  struct Progress {
    std::uint64_t called = 0, ended = 0;  // operations
    double last_end = 0;
    std::unique_ptr<sim::Event> arrival;
  };

  SimGroup(sim::World& world, const std::string& name, int size, const SimOptions& options);
  Progress& progress(int rank) { return progress_[static_cast<std::size_t>(rank)]; }
  const Progress& progress(int rank) const { return progress_[static_cast<std::size_t>(rank)]; }
  void wait_for_members(int rank);
  Operation& operation(std::uint64_t number) const { return *operations_[number - first_]; }
  void check_agreement(Operation& operation, int rank) const;
  /// Ends what is finished, in the order of operations; true if there was something.
  bool advance(int rank);
  void end(Operation& operation, int rank);
  void break_quietly(const std::string& what);
  void break_group(const std::string& what) override;

  std::vector<Progress> progress_;  // by rank
  int joined_ = 0;
  std::unique_ptr<sim::Event> all_joined_, all_arrived_;
  std::deque<OperationPtr> operations_;  // those that have not ended for all
  std::uint64_t first_ = 1;              // number of the first of them
  SimMessages messages_{*this};
};

/// What the operation asks for, at once: sums in rank order, copies. `entries`: of all ranks.
void move_values(const std::vector<SimGroup::Entry>& entries);

}  // namespace ringside::peer
