// SimDevice: a simulated device.
#pragma once

#include <memory>
#include <vector>

#include "core/device/cost.h"
#include "core/device/device.h"
#include "core/sim/comm_compute_contention.h"
#include "core/sim/world.h"

namespace ringside::sim {

/// Buffers are counted but have no memory, and operations take virtual time on a roofline:
/// max(operations / peak, bytes / bandwidth) / efficiency + launch. Products have the peak of their
/// operands' dtype, all other operations that of fp32 (core/device/cost.h). The memory that all
/// devices of one place hold together is limited. write() discards its data and read() gives zeros;
/// neither takes time. If there is a second device `numerics`, buffers have memory of `numerics`,
/// and `numerics` computes every operation as well. The ledger of `numerics` is not used.
///
/// Part of the time of a measured operation needs all of the memory's bandwidth, which the cores of
/// a machine share (TimedOperation::memory_us). All operations up to the next catch_up() count as
/// one, which first computes and then needs the memory.
///
/// host_work() takes the time of the roofline of ClusterSpec::host, on the cores of the device's
/// machine, which all ranks of the machine share. On a CPU it is an operation like the others.
///
/// Operations of slow devices (ClusterSpec::slow) take longer, devices differ by
/// ClusterSpec::spread, and with ClusterSpec::jitter each training step takes longer or shorter by
/// a factor of its own (begin_step()). While collectives move a device's data its operations are
/// slower (CollectiveSpec::device_share). None of these holds for hosts.
///
/// Time runs lazily: operations add to the `pending` time, which the clock and marks include. An
/// actor must call catch_up() before it does anything else with the world, and before it ends, so
/// that other actors see its actions at the right time; the simulated communicator and channels
/// call it. Several actors (a server and the worker colocated with it) may share a device after
/// share(). From then on no time is pending when another actor runs, so each actor takes the time
/// of its own operations. For one thread.
class SimDevice : public Device {
 public:
  /// Throws Error if the device is not part of a world.
  virtual World& world() = 0;
  virtual Place place() const = 0;
  /// Blocks the calling actor until the world's clock has reached the device's clock.
  virtual void catch_up() = 0;
  /// From now on every operation calls catch_up(), so that each actor that shares the device finds
  /// its memory and its time up to date.
  virtual void share() = 0;
  /// From now on operations of a CPU run on all of its cores together, as fast as one core for each
  /// of their parts; the cores are still shared with others.
  virtual void use_all_cores() = 0;
  /// The object that communicators tell when collectives move the device's data. Null if that slows
  /// nothing down.
  virtual std::shared_ptr<CommComputeContention> contention() const = 0;
};

/// A fault on purpose of a device (core/plan/faults.h).
struct DeviceFault {
  std::int64_t step = 0;  // the first that it concerns
  double stop_s = 0;      // the device stands still before that step
  double slow = 1;        // from that step on all operations take so many times as long
};

/// Times that every training step of a world takes besides its operations.
struct StepTimes {
  double host_s = 0;   // the host's work before the first operation, for which the device waits
  double input_s = 0;  // the time in which a rank's samples of a step are loaded
  std::vector<DeviceFault> faults{};
  /// The work that takes time is stated (Device::take_instead()): other operations, work of the
  /// host and copies take none, and neither ClusterSpec::spread nor jitter changes it.
  bool stated = false;
};

/// Makes a simulated device, which errors call "sim NAME (machine M, device D)". Without a `world`
/// (null) the device's clock starts at 0 and only operations move it; this is enough to make a
/// model and look at it. With `tf32` products of fp32 take the time of tf32 on devices, but not on
/// hosts. `numerics` may be null. `seed` is that of the jitter. begin_step() waits for the step's
/// samples, whose loading begins when the step before begins (`times`). Throws Error if
/// check(cluster) does, or if the cluster has no such place. Also throws Error if, for fp32 or for
/// another dtype in the device's tflops, a class of operations has no efficiency and the class that
/// may stand in for it (stand_in()) has none either. Products in a dtype that is missing in the
/// device's tflops throw Error when they run.
std::unique_ptr<SimDevice> make_sim_device(const ClusterSpec& cluster, World* world, Place place,
                                           std::unique_ptr<Device> numerics, bool tf32 = false,
                                           std::uint64_t seed = 1, StepTimes times = {});

/// Seconds that an operation of this cost takes on the device. Throws Error if the device has no
/// figures for the operation.
double seconds_of(const OpCost& cost, const DeviceSpec& device, bool tf32 = false);
/// Seconds of an operation that was timed on the device's roofline alone, without efficiency and
/// launch. Throws Error if the device has no peak of the operation's dtype.
double ideal_seconds_of(const TimedOperation& timed, const DeviceSpec& device);

/// Returns `device` as a SimDevice. Throws Error if it is not simulated.
SimDevice& sim_device(Device& device);

}  // namespace ringside::sim
