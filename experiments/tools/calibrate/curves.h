// Roofline and efficiencies of a device, from timed operations.
#pragma once

#include <string>
#include <vector>

#include "core/sim/device_spec.h"

namespace ringside::tools::calibrate {

/// Sets the peak of each dtype to that of the fastest product of a layer, and the bandwidth to that
/// of the elementwise operation that moves the most bytes. Keeps figures for which there is no
/// operation.
void set_roofline(sim::DeviceSpec& device, const std::vector<sim::TimedOperation>& ops);

/// Sets the efficiency of every dtype and class that `ops` have; those of others stay. A curve has
/// a point for each octave of ideal times in which there are operations, for attention for each
/// quarter of an octave, because the share of its few operations depends on the length of sequences
/// more than on their ideal time. Operations of less than a quarter of a launch share a point. The
/// points are such that the operations of an octave, each on the curve, take as long together as
/// they were measured, which is without the device's launch_us for each. An operation counts as
/// often as it is listed. The device has its roofline and launch_us already.
void set_efficiency(sim::DeviceSpec& device, const std::vector<sim::TimedOperation>& ops);

/// Gives an efficiency to every dtype and class that a simulation may ask for and that has none:
/// that of the class in another dtype, or for products that of the dtype's linear layers. Returns
/// their keys, which are assumed.
std::vector<std::string> complete_efficiency(sim::DeviceSpec& device);

}  // namespace ringside::tools::calibrate
