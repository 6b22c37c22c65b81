// SimGroup: the state that a group's simulated ranks share: operations, and the ranks that have
// arrived at each.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/sim/sim_device.h"
#include "peer/comm/algorithms/choice.h"
#include "peer/comm/collective.h"
#include "peer/comm/sim/members.h"
#include "peer/comm/sim/messages.h"
#include "peer/comm/sim/rma_operations.h"

namespace ringside::peer {

/// One object for all ranks of a group. A world's actors run one at a time, so nothing is locked.
/// Ranks call operations and wait for them. The group's services (background actors of the world)
/// call finish() or finish_all() after they have waited for the simulated time that an operation
/// takes. With an algorithm, the services of a small group move its messages one by one, with their
/// values. A waiting rank checks the first of its operations that has not ended: if ranks called
/// different operations, or a rank is missing, the waiting rank breaks the group. All ranks then
/// throw Error with the same text.
class SimGroup : public SimMembers {
 public:
  /// A collective as one rank called it.
  struct Entry {
    Collective call;
    Tensor in, out;         // kept until the operation's end
    Tensor scratch;         // for an algorithm
    double arrival = 0;     // when the rank arrived, in seconds of the world's clock
    double end = 0;         // when the operation ended for the rank
    bool here = false;      // the rank has arrived
    bool finished = false;  // the rank's part of the algorithm is over

    /// The larger operand.
    const Tensor& whole() const { return out.count() > in.count() ? out : in; }
  };
  struct Operation {
    std::uint64_t number = 0;
    Collective call;             // of the first rank that arrived
    std::vector<Entry> entries;  // by rank
    int arrived = 0, finished = 0, ended = 0;
    std::string mismatch;  // the error if ranks called different operations; else empty
    std::unique_ptr<sim::Event> changed;
  };
  using OperationPtr = std::shared_ptr<Operation>;

  /// Blocks until all ranks of the group have joined, at most the timeout; the last rank starts the
  /// group's services. Throws Error that names the missing ranks.
  static std::shared_ptr<SimGroup> join(
      sim::SimDevice& device, Group group, const SimOptions& options,
      const std::function<void(const std::shared_ptr<SimGroup>&)>& start_services);
  SimMessages& messages() { return messages_; }
  /// The messages of the algorithm.
  SimMessages& steps() { return steps_; }
  /// The one-sided operations on windows of the group.
  SimAccesses& accesses() { return accesses_; }
  Algorithm algorithm() const { return algorithm_; }
  /// The algorithm of a collective, in a group with an algorithm of messages.
  const AlgorithmRow& row_of(const Collective& call, const Tensor& whole) {
    return choice_->row(call, whole.count(), whole ? size_of(whole.dtype()) : 1);
  }
  /// Whether collectives are simulated message by message.
  bool by_messages() const;

  // ---- for ranks

  /// Announces that the rank has reached its next operation. Throws Error if the group is broken.
  OperationPtr call(int rank, const Collective& call, const std::string& purpose, const Tensor& in,
                    const Tensor& out, const Tensor& scratch);
  /// Blocks until the operation has ended for the rank (see finish()). Throws Error if the group
  /// breaks.
  void await(const Operation& operation, int rank);
  /// Whether the operation, and all operations before it, have ended for the rank.
  bool ended(const Operation& operation, int rank) const {
    return progress(rank).ended >= operation.number;
  }
  /// Called when an exception ends the rank. Breaks the group and lets go of all ranks' tensors.
  /// Wakes no waiting rank, because waking a rank means calling the world, and the world may be
  /// ending this rank's actor. A waiting rank learns of the break at its deadline at the latest.
  void abandon(int rank, const std::string& what);
  /// Notes that the rank takes part in no later operation. With `unwinding` an exception ends the
  /// rank; like abandon(), the function then does not call the world.
  void leave(int rank, bool unwinding);

  // ---- for services

  /// Blocks until `rank`, or with -1 every rank, has reached operation `number`. Returns null if
  /// all ranks have left instead, if the group is broken or if ranks called different operations.
  OperationPtr next(int rank, std::uint64_t number);
  bool usable(const Operation& operation) const {
    return broken_.empty() && operation.mismatch.empty();
  }
  /// finish() notes that the rank's part of the algorithm is over, finish_all() that the parts of
  /// all ranks are. An operation ends for a rank once the rank's part is over, all ranks have
  /// arrived and the operations before it have ended for the rank. When an operation ends for the
  /// first rank, the values of all ranks are moved at once.
  void finish(const OperationPtr& operation, int rank);
  void finish_all(const OperationPtr& operation);

 private:
  struct Progress {
    std::uint64_t called = 0, ended = 0;  // how many operations
    double last_end = 0;
    std::unique_ptr<sim::Event> arrival;
  };

  SimGroup(sim::World& world, const Group& group, const SimOptions& options);
  Progress& progress(int rank) { return progress_[static_cast<std::size_t>(rank)]; }
  const Progress& progress(int rank) const { return progress_[static_cast<std::size_t>(rank)]; }
  void choose();
  void wait_for_members(int rank);
  Operation& operation(std::uint64_t number) const { return *operations_[number - first_]; }
  void check_agreement(Operation& operation, int rank) const;
  /// Ends, in order, the rank's operations that may end (see finish()); returns whether there were
  /// any.
  bool advance(int rank);
  void end(Operation& operation, int rank);
  void break_quietly(const std::string& what);
  void break_group(const std::string& what) override;

  /// Moves the values of all ranks and counts their bytes, unless the messages of an algorithm have
  /// done so already.
  void move(const Operation& operation, int rank);

  Algorithm algorithm_;
  std::optional<Choice> choice_;    // made when all ranks have joined
  std::vector<Progress> progress_;  // by rank
  int joined_ = 0;
  std::unique_ptr<sim::Event> all_joined_, all_arrived_;
  std::deque<OperationPtr> operations_;  // operations that have not ended for all ranks
  std::uint64_t first_ = 1;              // number of the first of these operations
  SimMessages messages_{*this, SimMessages::Use::messages};
  SimMessages steps_{*this, SimMessages::Use::steps};
  SimAccesses accesses_{*this};
};

/// Carries out an operation on the ranks' values: adds them up in the order of the algorithm (in
/// rank order if it is null), or copies them. `entries` are the operation's entries of all ranks,
/// which live on `hosts`.
void move_values(const std::vector<SimGroup::Entry>& entries, const AlgorithmRow* algorithm,
                 const std::vector<int>& hosts);

}  // namespace ringside::peer
