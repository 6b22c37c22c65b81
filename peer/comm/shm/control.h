// What the ranks of a shared-memory group tell each other: one small file, mapped by all.
#pragma once

#include <optional>
#include <string>

#include "core/base/waiting_time.h"
#include "core/comm/store.h"
#include "core/device/device.h"
#include "peer/comm/call.h"
#include "peer/comm/shm/flag.h"
#include "peer/comm/shm/mapping.h"

namespace ringside::peer {

/// Where a tensor lies: in some process of this host.
struct Address {
  std::int32_t process = 0;
  std::int32_t file = -1;
  std::uint64_t identity = 0;  // of the file: its number may have stood for another one before
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A group's shared state, seen by one rank. After operation n came to an end the flags `phase` of
/// all ranks hold 2 n + 1 or more; a rank that came to operation n + 1 sets 2 n + 2. What goes
/// wrong on one rank breaks the group: all ranks then throw the same text.
class Control {
 public:
  struct alignas(64) Rank {
    Flag phase;
    /// Rung for a rank whose messages (send, recv) may go on.
    Flag bell;
    std::atomic<std::uint32_t> gone;
    Call call;
    Address in;  // what peers read, and write in an all_reduce
  };
  /// Messages from one rank to another: the sender raises `posted`, the receiver `taken`.
  struct alignas(64) Lane {
    Flag posted, taken;
    Address address;
  };

  /// Collective: rank 0 makes the file, the others find it through the store. Blocks until all are
  /// here; throws Error that names the missing ranks.
  Control(Device& device, Store& store, const Group& group, double timeout_s);
  /// Tells the others that this rank will not come to any later operation.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::string& name() const { return group_.name; }
  int rank() const { return group_.rank; }
  int size() const { return group_.size; }
  double timeout_s() const { return timeout_s_; }
  double now() const { return device_.clock().now(); }
  /// Of a wait that pauses with backoff().
  WaitingTime begin_wait() const { return {now(), Flag::longest_sleep_s}; }
  Backoff backoff() const { return Backoff(spin_); }

  Rank& of(int rank) const;
  Lane& lane(int from, int to) const;

  /// Comes to operation `number` and waits for the others. Throws Error on every rank when one of
  /// them did not come in time, left, or called another operation.
  void arrive(std::uint64_t number, const Call& call, const Address& in);
  /// Ends operation `number`: waits until nobody touches its tensors any more.
  void leave(std::uint64_t number);

  /// Breaks the group, unless it is broken already, and throws what broke it.
  [[noreturn]] void fail(const std::string& what);
  void break_group(const std::string& what);
  bool broken() const;
  void throw_if_broken() const;

 private:
  struct Header;
  void create(Store& store);
  void join(Store& store);
  void come_together();
  std::size_t bytes() const;
  Header& header() const;
  /// Waits until the phase of every rank has reached `phase`. Otherwise says what came between:
  /// a rank left, the time was over, or, with `heed_breaks`, the group broke.
  enum class Outcome : std::uint8_t { all_here, left, timed_out, broken };
  Outcome wait_for_all(std::uint32_t phase, bool heed_breaks);
  /// The ranks that have not reached `phase`, or of them those that are gone: "rank 2 of 4",
  /// "ranks 1, 2 of 4".
  std::string missing(std::uint32_t phase, bool only_gone = false) const;
  void check_agreement(std::uint64_t number);

  Device& device_;
  Group group_;
  double timeout_s_;
  bool spin_;
  File file_;  // of rank 0: others open it through its number
  std::optional<Mapping> mapping_;
};

}  // namespace ringside::peer
