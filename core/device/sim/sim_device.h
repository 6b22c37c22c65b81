// A device that is simulated.
#pragma once

#include <memory>

#include "core/device/cost.h"
#include "core/device/device.h"
#include "core/sim/world.h"

namespace ringside::sim {

/// Buffers are counted and have no memory; operations take virtual time: on a roofline,
/// max(operations / peak, bytes / bandwidth) / efficiency + launch. Products have the peak of the
/// dtype of their operands, all else that of fp32 (core/device/cost.h). What devices of one place
/// hold together is limited. write() is lost and read() gives zeros; neither takes time.
/// `numerics`, if there is one, gives buffers memory and computes as well (its own ledger is
/// nobody's business).
///
/// Time runs lazily: operations add to what is `pending`, and the clock and marks count it in. An
/// actor must catch_up() before it does anything with the world, and before it ends (so that others
/// see it there at the right time); the simulated communicator and channels do. Several actors may
/// share a device (a server and the worker beside it), since nothing is pending whenever another
/// actor runs: the time that an actor's operations take is its own. For one thread.
class SimDevice : public Device {
 public:
  /// Throws Error for a device without a world.
  virtual World& world() = 0;
  virtual Place place() const = 0;
  /// Blocks the calling actor until the world's clock has reached the device's.
  virtual void catch_up() = 0;
  /// From now on every operation catches up: whoever shares the device finds its memory, and its
  /// time, as they stand at each operation.
  virtual void share() = 0;
};

/// Errors call it "sim NAME (machine M, device D)". `world` null: its clock begins at 0 and only
/// operations move it (for making a model and looking at it). `tf32`: products of fp32 take the
/// time of tf32's, on devices, not on hosts. Throws Error as check(cluster) does, and for a cluster
/// without that place, or without the efficiency of a class of operations (or of its stand-in) in
/// fp32 or another dtype of its tflops. Of a dtype that these do not have, products throw.
std::unique_ptr<SimDevice> make_sim_device(const ClusterSpec& cluster, World* world, Place place,
                                           std::unique_ptr<Device> numerics, bool tf32 = false);

/// Seconds of one operation of that cost on the device. Throws Error if the device has no figures
/// for it.
double seconds_of(const OpCost& cost, const DeviceSpec& device, bool tf32 = false);
/// On its roofline alone, without efficiency and launch.
double ideal_seconds_of(const OpCost& cost, const DeviceSpec& device);

/// The device as what it is. Throws Error if it is not simulated.
SimDevice& sim_device(Device& device);

}  // namespace ringside::sim
