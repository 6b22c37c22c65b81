// HostSide: the memory and the processor of a device's host, and the copies between host and
// device.
#pragma once

#include <functional>
#include <memory>

#include "core/device/device.h"

namespace ringside {

/// A request to a host side, under way or over.
class HostTask {
 public:
  virtual ~HostTask() = default;
  /// Blocks until the task is over; compute that is enqueued later sees what was stored. Throws
  /// Error with the text of what the task, or one that it came after, threw.
  virtual void wait() = 0;
  /// The begin and the end of the task, on the device's clock. May be called only after wait().
  struct Span {
    double begin = 0, end = 0;
  };
  virtual Span span() const = 0;
};
using HostTaskPtr = std::shared_ptr<HostTask>;

/// The host's resources that a rank uses besides its own device. Requests run in three lanes:
/// copies to the host, the host's compute, and copies back. The requests of a lane run in order;
/// lanes and the device's compute run at the same time. No function but HostTask::wait() blocks.
/// One thread makes all requests and waits for them: the one that computes on the device. Tasks
/// must not outlive the host side.
class HostSide {
 public:
  virtual ~HostSide() = default;

  /// The host's memory and kernels. Kernels may be called only by run()'s work.
  virtual Device& device() = 0;

  /// Copies `from`, on the device, to `to`, in the host's memory, after the compute enqueued so
  /// far. Until the task is over `from` must not change, and `to` must not be used.
  virtual HostTaskPtr fetch(const Tensor& from, const Tensor& to) = 0;
  /// Calls `work` on the host's processor once `after` is over; null: at once. If `after` fails,
  /// `work` is not called and this task fails with the same error.
  virtual HostTaskPtr run(std::function<void()> work, HostTaskPtr after) = 0;
  /// Copies `from`, in the host's memory, to `to`, on the device, once `after` is over; null: at
  /// once. Compute enqueued before this call may still use `to`; later compute may use it again
  /// only after wait().
  virtual HostTaskPtr store(const Tensor& from, const Tensor& to, HostTaskPtr after) = 0;

  /// Seconds for which run()'s work has kept the host's processor busy, or waiting for its turn.
  virtual double busy_s() const = 0;
};

/// Makes the host side of a real device. `host` is a device that computes in the host's memory.
/// Each lane has a thread. Copies take the device's Staging and Upload if the device has them. The
/// device outlives the host side. The destructor blocks until all requests are over.
std::unique_ptr<HostSide> make_host_side(Device& device, std::unique_ptr<Device> host);

}  // namespace ringside
