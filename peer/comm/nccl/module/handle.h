// A communicator of NCCL as an object.
#pragma once

#include <nccl.h>

#include <functional>
#include <string>

#include "core/device/device.h"
#include "peer/comm/nccl/module/rendezvous.h"

namespace ringside::peer {

/// Non-blocking: a call leaves it in progress, and until it is not, no other may follow. For one
/// thread at a time. Its end without finish() aborts it.
class Handle {
 public:
  /// Blocks until all ranks are connected; throws Error that names who has not come by `timeout_s`.
  Handle(const Clock& clock, Store& store, const GroupName& group, double timeout_s);
  ~Handle() { abort(); }
  Handle(Handle&& other) noexcept
      : clock_(other.clock_), group_(other.group_), comm_(std::exchange(other.comm_, nullptr)) {}
  Handle& operator=(Handle&&) = delete;

  /// Of the ranks that give the same colour (0 or more), ordered by (key, rank). Collective;
  /// blocks, at most `timeout_s`. None of its operations may be under way. `name` is the new
  /// group's.
  Handle split(int colour, int key, const std::string& name, double timeout_s);

  const GroupName& group() const { return group_; }
  /// Null once it has been aborted.
  ncclComm_t get() const { return comm_; }

  /// Whether a call that gave `result` is through, the only way to know that it has enqueued what
  /// it should. Does not block. Throws Error that names `what` if it failed.
  bool settled(ncclResult_t result, const std::string& what);
  /// Whether what was left in progress is through, as above.
  bool settled(const std::string& what);
  /// Blocks until it is through; after `timeout_s` throws Error. `meanwhile` is called now and
  /// then.
  void settle(
      ncclResult_t result, double timeout_s, const std::string& what,
      const std::function<void()>& meanwhile = [] {});

  /// Ends what is under way on this rank, and the communicator.
  void abort() noexcept;
  /// Ends it in order, with the other ranks; blocks at most `timeout_s`, then aborts. Whether they
  /// came.
  bool finish(double timeout_s) noexcept;

 private:
  Handle(const Clock& clock, GroupName group, ncclComm_t comm)
      : clock_(clock), group_(std::move(group)), comm_(comm) {}
  [[noreturn]] void fail(ncclResult_t result, const std::string& what) const;
  /// False after `timeout_s`.
  bool wait(ncclResult_t result, double timeout_s, const std::string& what,
            const std::function<void()>& meanwhile);

  const Clock& clock_;
  GroupName group_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace ringside::peer
