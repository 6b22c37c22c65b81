// Devices of a cluster that are not like its others: of another kind, or slower.
#pragma once

#include <cstdint>

#include "core/base/fields.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// Machines [first, first + count), whose devices are not ClusterSpec::device but of another kind:
/// another DeviceSpec with the same DeviceKind.
struct OtherMachines {
  std::int64_t first = 0;
  std::int64_t count = 1;
  DeviceSpec device;
  bool operator==(const OtherMachines&) const = default;
};

/// A device whose operations all take `factor` times as long as its description says; all devices
/// of the machine if `device` is -1. Factors of several entries multiply.
struct SlowDevice {
  std::int64_t machine = 0;
  std::int64_t device = -1;
  double factor = 1;
  bool operator==(const SlowDevice&) const = default;
};

/// The names of the fields are the keys of a cluster file.
Fields fields_of(OtherMachines& others);
Fields fields_of(SlowDevice& slow);

}  // namespace ringside::sim
