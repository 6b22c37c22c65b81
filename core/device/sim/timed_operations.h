// TimedOperations: durations of operations that were measured on a device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/device/cost.h"
#include "core/sim/device_spec.h"

namespace ringside::sim {

/// The entry of a cluster file for an operation of this cost that took `seconds`. Its dtype is that
/// of the operation for 16-bit floats, else fp32; with `tf32` it is "tf32" for products in fp32.
TimedOperation timed_operation(const OpCost& cost, double seconds, bool tf32 = false);
/// The class of an operation that was timed. Throws Error if there is no class of that name.
OpClass class_of(const TimedOperation& timed);

/// The duration of an operation on one core, in seconds.
struct OpTime {
  double all = 0;
  double memory = 0;  // the part that needs all of the memory's bandwidth (TimedOperation)
};

/// Answers from ClusterSpec::timed. For use by one thread.
class TimedOperations {
 public:
  /// If an operation was timed several times, the mean counts. Throws Error if an entry names no
  /// class of operations.
  explicit TimedOperations(const std::vector<TimedOperation>& timed);

  /// The time of an operation whose figures are those of `dtype`. If no operation of this cost was
  /// timed, another one stands in: of the same class and dtype, with the same operations a byte
  /// (within `same_kind`), so that both are about the same kernel, with at most `most_apart` times
  /// as many bytes, or as few. The stand-in's time counts in proportion to its bytes. Empty if
  /// there is no such operation either; operations that move no bytes have no stand-in.
  std::optional<OpTime> time(const OpCost& cost, const std::string& dtype);

  static constexpr double same_kind = 0.01, most_apart = 4;

 private:
  struct Key {
    OpClass kind;
    std::string dtype;
    double operations, bytes;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  std::optional<OpTime> stand_in(const Key& key) const;

  std::unordered_map<Key, OpTime, Hash> timed_;
  std::unordered_map<Key, std::optional<OpTime>, Hash> asked_;  // whose times were not measured
};

}  // namespace ringside::sim
