// The ranks of a simulated group: their places, those that have left, and the error that broke the
// group.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/traffic.h"
#include "core/comm/store.h"
#include "core/sim/comm_compute_contention.h"
#include "core/sim/world.h"
#include "peer/comm/records.h"

namespace ringside::peer {

struct SimOptions {
  /// In groups of up to this many ranks a collective's algorithm is simulated message by message;
  /// in larger groups, as flows of the same bytes over the same links.
  std::int64_t message_ranks = 8;
  double timeout_s = 60;  // seconds of simulated time
  /// The number of machines with ranks of the run, if the ranks of each machine do the same at the
  /// same time; 0 if they do not, or if it is not known. In a ring through all of them the flows of
  /// a few machines then represent those of all (peer/comm/sim/representatives.h).
  std::int64_t machines = 0;
  /// How many ranks of the run each of these machines has, if that is known; else 0. A group with
  /// so many ranks on each of its machines has these for itself.
  std::int64_t ranks_of_machine = 0;
  /// Seconds that a message takes, whatever its size and the links; collectives then take none.
  /// None: what the links give.
  std::optional<double> message_s{};
  /// The store in which a group that breaks leaves its records; may be null.
  Store* store = nullptr;
};

/// The facts about a group's ranks that both collectives and messages need. Has no locks: only the
/// actors of one world use it, and these run one at a time.
class SimMembers : public std::enable_shared_from_this<SimMembers> {
 public:
  SimMembers(sim::World& world, const std::string& name, int size, const SimOptions& options);
  virtual ~SimMembers() = default;
  SimMembers(const SimMembers&) = delete;
  SimMembers& operator=(const SimMembers&) = delete;

  const std::string& name() const { return name_; }
  int size() const { return static_cast<int>(members_.size()); }
  const SimOptions& options() const { return options_; }
  sim::World& world() const { return world_; }
  sim::Place place(int rank) const { return member(rank).place; }
  /// The machine of every rank.
  std::vector<int> hosts() const;
  /// Whether all ranks are cores of one machine's CPU, and reach each other's memory.
  bool shares_memory() const;
  Traffic& traffic(int rank) { return member(rank).traffic; }
  bool gone(int rank) const { return member(rank).gone; }
  /// Whether all ranks have left.
  bool closed() const { return left_ == size(); }

  bool broken() const { return !broken_.empty(); }
  void throw_if_broken() const;
  /// Breaks the group, unless it is broken already, and throws the text that broke it.
  [[noreturn]] void fail(const std::string& what);
  /// The same for a rank whose wait has timed out: the text also lists the last operation of every
  /// rank.
  [[noreturn]] void fail_waiting(const std::string& what);

 protected:
  struct Member {
    bool joined = false;
    sim::Place place{};
    bool has_values = false;
    std::shared_ptr<sim::CommComputeContention> contention{};  // of the rank's device; may be null
    Traffic traffic{};
    bool gone = false;
  };
  Member& member(int rank) { return members_[static_cast<std::size_t>(rank)]; }
  const Member& member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  Records& records(int rank) { return records_[static_cast<std::size_t>(rank)]; }
  /// Keeps the first cause, and wakes all waiting ranks, which then throw it.
  virtual void break_group(const std::string& what) = 0;

  int left_ = 0;
  std::string broken_;  // why the group is broken; empty if it is not

 private:
  sim::World& world_;
  std::string name_;
  SimOptions options_;
  std::vector<Member> members_;
  std::vector<Records> records_;
};

}  // namespace ringside::peer
