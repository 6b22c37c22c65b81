// Properties of the kinds of devices, on which plans, schemes and reports depend.
#pragma once

#include <string_view>

namespace ringside {

/// The properties of one kind of device. All are false or empty for a kind that does not exist,
/// which the registry reports.
struct DeviceTraits {
  std::string_view kind{};
  /// How ranks on one host reach each other, as tables of communicators call it.
  std::string_view communicator{};
  /// Ranks compute with threads on the cores of this machine's processor.
  bool on_processor = false;
  /// Ranks live in a simulated cluster, which a cluster file describes.
  bool simulated = false;
  /// Ranks of a host map the tensors of such devices, so that servers may read them where they lie.
  /// Simulated ranks do as real ones that can.
  bool shares_memory = false;
  /// Ranks read and write each other's shards without the help of their owners.
  bool one_sided = false;
  /// A library of the device's maker adds up over ranks, in an order of its choice.
  bool sums_in_library = false;
  /// Results have the bits of the run's definition; without it they agree to rounding.
  bool repeats_bits = false;
};

/// The traits of a kind of device, by its name in experiment files.
const DeviceTraits& device_traits(std::string_view kind);

}  // namespace ringside
