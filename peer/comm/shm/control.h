// The control block of a shared-memory group: one small file, mapped by all ranks.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/interruption.h"
#include "core/base/waiting_time.h"
#include "core/comm/store.h"
#include "core/device/device.h"
#include "core/shm/flag.h"
#include "core/shm/mapping.h"
#include "core/shm/peer_memory.h"
#include "peer/comm/collective.h"
#include "peer/comm/shm/shared_records.h"

namespace ringside::peer {

/// A group's shared state, seen by one rank. A rank that begins operation n sets its flag `phase`
/// to 2 * n, and to 2 * n + 1 when it leaves the operation. The operation ends when all ranks have
/// left it. An error on one rank breaks the group: all ranks then throw the same text.
class Control {
 public:
  struct alignas(64) Rank {
    shm::Flag phase;
    /// Raised to wake the rank when its messages (send, recv) may go on.
    shm::Flag bell;
    std::atomic<std::uint32_t> gone;
    /// While this rank waits for another: that rank's number + 1; else 0. A waiting rank updates
    /// `seen_alive` every Flag::longest_sleep_s.
    std::atomic<std::int32_t> waits_for;
    std::atomic<double> seen_alive;  // in seconds of the clock
    Collective call;
    shm::Address in;   // peers read this tensor, and in an all_reduce write it
    shm::Address out;  // only in groups of several hosts: peers write this tensor
  };
  /// The larger group to which the ranks of this host belong. Errors use the numbers of that group.
  struct Whole {
    std::string name;
    int size = 0;
    std::vector<int> ranks;  // the number of every rank of this host in the larger group
  };
  /// The content of a lane: messages (send, recv), or the steps of collectives by an algorithm.
  enum class Use : std::uint8_t { messages, steps };
  /// The way from one rank to another: the sender raises `posted`, the receiver `taken`.
  struct alignas(64) Lane {
    shm::Flag posted, taken;
    shm::Address address;
  };

  /// Collective: rank 0 makes the file, and the others find it through the store. Blocks until all
  /// ranks have joined; throws Error that names the missing ranks. With `whole` (a part of a larger
  /// group) the caller must leave the records in the store. `interruption` may be null; once it is
  /// raised, this rank waits for no other any more, which then may find its memory changed.
  Control(Device& device, Store& store, const Group& group, double timeout_s,
          std::optional<Whole> whole = {}, Interruption* interruption = nullptr);
  /// Tells the other ranks that this rank takes part in no later operation.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::string& name() const { return whole_ ? whole_->name : group_.name; }
  int rank() const { return group_.rank; }
  int size() const { return group_.size; }
  double timeout_s() const { return timeout_s_; }
  double now() const { return device_.clock().now(); }
  /// Begins to measure a wait that pauses with backoff().
  WaitingTime begin_wait() const { return {now(), shm::Flag::longest_sleep_s}; }
  shm::Backoff backoff() const { return shm::Backoff(spin_); }

  Rank& of(int rank) const;
  SharedRecords& records(int rank) const;
  Lane& lane(Use use, int from, int to) const;

  /// The number and the texts by which errors name ranks of this host.
  int number_of(int rank) const;
  int whole_size() const { return whole_ ? whole_->size : size(); }
  std::string list(const std::function<bool(int)>& which) const;

  /// Announces that this rank begins operation `number`, and waits for the others; `purpose` is
  /// kept in the record of the operation. Throws Error on every rank if a rank is late, has left,
  /// or called another operation.
  void arrive(std::uint64_t number, const Collective& call, const shm::Address& in,
              std::string_view purpose, const shm::Address& out = {});
  /// Ends operation `number`: waits until no rank uses the operation's tensors any more. Ranks that
  /// may wait for others within the operation get `patience_s` longer than the deadline.
  void leave(std::uint64_t number, double patience_s = 0);
  /// Notes that this rank takes part in no later operation.
  void say_gone();

  /// Within an operation: notes that this rank still waits for `peer`.
  void note_waiting(int peer);
  void note_no_waiting() { of(rank()).waits_for.store(0, std::memory_order_relaxed); }
  /// Within an operation in which this rank has waited for `peer` too long: the rank that is the
  /// cause. Follows the chain of waits from `peer` to the first rank that does not wait, or whose
  /// `seen_alive` is older than half a deadline.
  int rank_in_the_way(int peer) const;

  /// Breaks the group, unless it is broken already, and throws the text that broke it. Leaves the
  /// records of all ranks in the store (leave_records).
  [[noreturn]] void fail(const std::string& what);
  /// The same for a rank whose wait has timed out: the text also lists the last operation of every
  /// rank.
  [[noreturn]] void fail_waiting(const std::string& what);
  void break_group(const std::string& what);
  /// Lists the last operations of this host's ranks (where_ranks_are).
  std::string where() const;
  /// True for the first rank of this host that calls it, which then reports for all of them.
  bool speaks_first() const;
  bool broken() const;
  void throw_if_broken() const;

 private:
  struct Header;
  /// A wait of this rank has ended early because the group is broken, or will be in a moment, as
  /// the rank was interrupted: what it waited for has not come.
  [[noreturn]] void throw_broken() const;
  std::string world_changes() const;
  /// Breaks the group and ends all waits of this rank.
  void abandon();
  void wake_all();
  void create();
  void join();
  void come_together();
  std::size_t bytes() const;
  Header& header() const;
  /// Waits until the phase of every rank has reached `phase`. Ends the wait early if a rank that
  /// has not reached `phase` is gone, if the timeout is over, or, with `heed_breaks`, if the group
  /// is broken. Returns which of these happened.
  enum class Outcome : std::uint8_t { all_here, left, timed_out, broken };
  Outcome wait_for_all(std::uint32_t phase, bool heed_breaks, double timeout_s);
  /// Names the ranks that have not reached `phase`; with `only_gone`, only those of them that are
  /// gone: "rank 2 of 4", "ranks 1, 2 of 4".
  std::string missing(std::uint32_t phase, bool only_gone = false) const;
  /// Names the ranks that hold up the ranks below `phase` (rank_in_the_way()).
  std::string in_the_way(std::uint32_t phase) const;
  void check_agreement(std::uint64_t number);

  Device& device_;
  Store& store_;
  Group group_;
  double timeout_s_;
  std::optional<Whole> whole_;
  bool spin_;
  shm::File file_;  // open on rank 0 until all ranks have opened and mapped it too
  std::optional<shm::Mapping> mapping_;
  std::atomic<bool> abandoned_ = false;
  Interruption::Call call_;  // abandon()
};

}  // namespace ringside::peer
