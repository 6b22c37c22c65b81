// A device that is simulated.
#pragma once

#include <memory>

#include "core/device/cost.h"
#include "core/device/device.h"
#include "core/sim/world.h"

namespace ringside::sim {

/// Buffers are counted and have no memory; operations take virtual time: on a roofline,
/// max(operations / peak, bytes / bandwidth) / efficiency + launch. `numerics`, if there is one,
/// gives buffers memory and computes as well (its own ledger is nobody's business).
///
/// Time runs lazily: operations add to what is `pending`, and the clock and marks count it in. An
/// actor must catch_up() before it does anything with the world (so that others see it there at
/// the right time); the simulated communicator and channels do.
class SimDevice : public Device {
 public:
  virtual World& world() = 0;
  virtual Place place() const = 0;
  /// Blocks the calling actor until the world's clock has reached the device's.
  virtual void catch_up() = 0;
};

/// `rank` is what errors call the owner. `world` null: nothing takes time (for making a model and
/// looking at it). Throws Error as check(cluster) does.
std::unique_ptr<SimDevice> make_sim_device(const ClusterSpec& cluster, World* world, Place place,
                                           std::unique_ptr<Device> numerics);

/// Seconds of one operation of that cost and dtype on the device.
double seconds_of(const OpCost& cost, std::string_view dtype, const DeviceSpec& device);

/// The device as what it is. Throws Error if it is not simulated.
SimDevice& sim_device(Device& device);

}  // namespace ringside::sim
