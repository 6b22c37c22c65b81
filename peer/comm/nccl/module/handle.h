// A communicator of NCCL as an object.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>
#include <utility>

#include "core/device/device.h"
#include "peer/comm/nccl/module/rendezvous.h"

namespace ringside::peer {

/// Asks `done` again and again, until it is true or `timeout_s` have passed; whether it is.
bool poll(const Clock& clock, double timeout_s, const std::function<bool()>& done);

/// Non-blocking: a call leaves it in progress, and until it is not, no other may follow. For one
/// thread at a time. Its end without finish() aborts it. Errors begin with the rank's place.
class Handle {
 public:
  /// Arrives; the others need not be there. The store outlives the connecting.
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
  /// Blocks until they are; throws Error that names who is missing after `timeout_s`.
  void connect(const Clock& clock, double timeout_s);

  /// Of the ranks that give the same colour (0 or more), ordered by (key, rank). Collective;
  /// blocks, at most `timeout_s`. None of its operations may be under way.
  Handle split(int colour, int key, const std::string& group, const Clock& clock, double timeout_s);

  const NcclRank& self() const { return self_; }
  /// Null before it is connected, and once it has been aborted.
  ncclComm_t get() const { return comm_; }

  /// Whether a call that gave `result` is through: only then has it enqueued what it should.
  /// ncclInProgress: what an earlier call left. Does not block. Throws Error that names `what` if
  /// it failed, or anything else of the group did.
  bool is_through(ncclResult_t result, const std::string& what);

  /// Ends what is under way on this rank, and the communicator.
  void abort() noexcept;
  /// Ends it in order, with the other ranks; after `timeout_s` aborts it. Whether they came.
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
