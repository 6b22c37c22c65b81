// A communicator of NCCL as an object that owns it.
#pragma once

#include <nccl.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "core/comm/communicator.h"
#include "core/comm/store.h"
#include "core/device/device.h"

namespace ringside::peer {

struct NcclRank : Group {
  std::string place{};  // errors begin with it: "ddp: rank 1 of 4"
};
/// The caller's rank in `group`, with the place that errors of this group begin with.
NcclRank nccl_rank(const Group& group);

/// Records in the store that this rank has arrived; rank 0 also makes the group's id and stores it.
void arrive(Store& store, const NcclRank& self);
/// Returns the group's id, or none before rank 0 has arrived. Does not block.
std::optional<ncclUniqueId> find_id(Store& store, const NcclRank& self);
/// Names the ranks that have not arrived: "rank 2", "ranks 2, 3"; empty if all have. Blocks for at
/// most about 0.2 s.
std::string who_is_missing(Store& store, const NcclRank& self);

/// Calls `done` again and again until `done` returns true or `timeout_s` have passed. Returns
/// whether `done` returned true.
bool poll(const Clock& clock, double timeout_s, const std::function<bool()>& done);

/// A non-blocking communicator: a call of NCCL may return before it is through, and until it is
/// through no other call may follow. Destruction without finish() aborts the communicator. Texts of
/// errors begin with NcclRank::place. For one thread at a time.
class Handle {
 public:
  /// Announces this rank; the other ranks need not be there yet. The store must live until all
  /// ranks are connected.
  Handle(Store& store, const NcclRank& self);
  ~Handle() { abort(); }
  Handle(Handle&& other) noexcept
      : store_(other.store_),
        self_(std::move(other.self_)),
        comm_(std::exchange(other.comm_, nullptr)),
        connected_(other.connected_) {}
  Handle& operator=(Handle&&) = delete;

  /// Whether all ranks are connected; does not block. Throws Error if NCCL fails.
  bool connected();
  /// Blocks until all ranks are connected; after `timeout_s` throws Error that names the missing
  /// ranks.
  void connect(const Clock& clock, double timeout_s);

  /// Returns a communicator of the ranks that give the same colour (0 or more), ordered by (key,
  /// rank). Collective; blocks for at most `timeout_s`. No operation of this communicator may be
  /// under way.
  Handle split(int colour, int key, const std::string& group, const Clock& clock, double timeout_s);

  const NcclRank& self() const { return self_; }
  /// Null before this rank has begun to connect, and after abort() or finish().
  ncclComm_t get() const { return comm_; }

  /// Whether the call that returned `result` is through: only then has it enqueued its operation.
  /// Pass ncclInProgress to ask about an earlier call. Does not block. Throws Error that names
  /// `what` if the call, or anything else in the group, failed.
  bool is_through(ncclResult_t result, const std::string& what);

  /// Ends all operations under way on this rank, and the communicator.
  void abort() noexcept;
  /// Ends the communicator together with the other ranks; aborts it after `timeout_s`.
  /// Returns whether the other ranks came.
  bool finish(const Clock& clock, double timeout_s) noexcept;

 private:
  Handle(Store& store, NcclRank self, ncclComm_t comm)
      : store_(store), self_(std::move(self)), comm_(comm), connected_(true) {}
  void bring_through(ncclResult_t result, const std::string& what, const Clock& clock,
                     double timeout_s);

  Store& store_;
  NcclRank self_;
  ncclComm_t comm_ = nullptr;
  bool connected_ = false;
};

}  // namespace ringside::peer
