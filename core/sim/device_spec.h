// DeviceSpec: the speed and the memory of a simulated device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"

namespace ringside::sim {

/// The share of the roofline's speed that operations of one class reach. It depends on their ideal
/// time, which is the time that they would take at the roofline's speed: short operations reach a
/// smaller share. The share is linear in log(ideal time) between the points and constant beyond
/// them. It may exceed 1 where data fits into caches, which are faster than the device's bandwidth,
/// and where a kernel needs fewer operations than its cost (core/device/cost.h) counts.
struct Efficiency {
  std::vector<std::pair<double, double>> points{};  // (ideal microseconds, share), ascending
  double at(double ideal_us) const;
  bool operator==(const Efficiency&) const = default;
};
/// In a cluster file the value of an Efficiency is its list of points.
inline FieldValue field_value(Efficiency& efficiency) { return &efficiency.points; }

/// A GPU belongs to one rank; the cores of a CPU are shared by its ranks.
enum class DeviceKind : std::uint8_t { gpu, cpu };
inline constexpr std::string_view device_kind_names[] = {"gpu", "cpu"};
constexpr EnumNames names_of(DeviceKind) { return device_kind_names; }

/// A device on which ranks compute. GB = 1e9 bytes, TFLOP/s = 1e12 operations a second.
struct DeviceSpec {
  std::string name;
  DeviceKind kind = DeviceKind::gpu;
  std::int64_t cores = 1;    // cores that compute side by side, one for each rank
  double busy_share = 1;     // the share of its speed that a core keeps while all cores compute
  double memory_gb = 0;      // memory that ranks can allocate
  double bandwidth_gbs = 0;  // bandwidth of the memory; for a CPU, of one core
  double launch_us = 0;      // time before each operation
  std::map<std::string, double> tflops{};  // by dtype, such as "fp32"; for a CPU, of one core
  /// By dtype, then by class of operations (core/device/cost.h).
  std::map<std::string, std::map<std::string, Efficiency>> efficiency{};
  /// By dtype: the error of a simulated training step on one device, for models to which the
  /// efficiencies were not fitted (core/sim/stated_errors.h). No entry: not known.
  std::map<std::string, double> error{};
  bool operator==(const DeviceSpec&) const = default;
};

/// An operation that was timed as it is, within training steps of a model, on the devices of a
/// cluster. It is known by its cost (core/device/cost.h): operations of the same class and dtype
/// with the same cost count as the same operation.
struct TimedOperation {
  std::string training;  // in which it was timed (core/plan/lone_training.h)
  std::string dtype;     // of DeviceSpec::efficiency
  std::string kind;      // the class of the operation
  double operations = 0, bytes = 0;
  double us = 0;  // on one rank alone, with what the host did since the operation before
  /// The part of `us` in which the operation needs all of the memory's bandwidth, which the cores
  /// of a CPU share. If two operations do so at the same time, each takes twice as long.
  double memory_us = 0;
  bool operator==(const TimedOperation&) const = default;
};

/// The names of the fields are the keys of a device in a cluster file.
Fields fields_of(DeviceSpec& device);
Fields fields_of(TimedOperation& timed);

}  // namespace ringside::sim
