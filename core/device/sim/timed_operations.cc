#include "core/device/sim/timed_operations.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/named_enum.h"

namespace ringside::sim {

TimedOperation timed_operation(const OpCost& cost, double seconds, bool tf32) {
  const bool is_16 = cost.dtype == DType::bf16 || cost.dtype == DType::f16;
  std::string dtype(name_of(is_16 ? cost.dtype : DType::f32));
  if (tf32 && !is_16 && is_product(cost.kind)) dtype = "tf32";
  return {.training = {},
          .dtype = std::move(dtype),
          .kind = std::string(name_of(cost.kind)),
          .operations = cost.operations,
          .bytes = cost.bytes,
          .us = 1e6 * seconds};
}

OpClass class_of(const TimedOperation& timed) {
  if (const auto kind = value_named<OpClass>(timed.kind)) return *kind;
  throw Error("an operation that was timed is of class '{}'; there are {}", timed.kind,
              one_of(names_of(OpClass{})));
}

TimedOperations::TimedOperations(const std::vector<TimedOperation>& timed) {
  std::unordered_map<Key, std::pair<OpTime, int>, Hash> sums;
  for (const TimedOperation& one : timed) {
    auto& [time, count] = sums[{class_of(one), one.dtype, one.operations, one.bytes}];
    time.all += 1e-6 * one.us;
    time.memory += 1e-6 * one.memory_us;
    ++count;
  }
  for (const auto& [key, sum] : sums)
    timed_.emplace(key, OpTime{sum.first.all / sum.second, sum.first.memory / sum.second});
}

std::optional<OpTime> TimedOperations::time(const OpCost& cost, const std::string& dtype) {
  if (timed_.empty()) return {};
  const Key key{cost.kind, dtype, cost.operations, cost.bytes};
  if (const auto known = timed_.find(key); known != timed_.end()) return known->second;
  const auto [asked, is_new] = asked_.try_emplace(key);
  if (is_new) asked->second = stand_in(key);
  return asked->second;
}

std::optional<OpTime> TimedOperations::stand_in(const Key& key) const {
  const auto apart = [](double a, double b) { return std::abs(std::log(a / b)); };
  const auto same_ratio = [&](const Key& other) {
    if (key.operations == 0 || other.operations == 0) return key.operations == other.operations;
    return apart(key.operations / key.bytes, other.operations / other.bytes) < same_kind;
  };
  std::optional<OpTime> time;
  double nearest = std::log(most_apart);
  std::pair<double, double> larger;  // bytes and operations of the one that stands in
  for (const auto& [other, of_other] : timed_) {
    if (other.kind != key.kind || other.dtype != key.dtype || key.bytes == 0 || other.bytes == 0 ||
        !same_ratio(other))
      continue;
    const double distance = apart(other.bytes, key.bytes);
    // Of two that are as far away, the larger one counts, whatever the order of the table.
    const std::pair size{other.bytes, other.operations};
    if (distance > nearest || (distance == nearest && size < larger)) continue;
    nearest = distance;
    larger = size;
    const double times = key.bytes / other.bytes;
    time = {of_other.all * times, of_other.memory * times};
  }
  return time;
}

std::size_t TimedOperations::Hash::operator()(const Key& key) const {
  const std::hash<double> hash;
  return hash(key.operations) * 31 + hash(key.bytes) * 7 + std::hash<std::string>()(key.dtype) +
         static_cast<std::size_t>(key.kind);
}

}  // namespace ringside::sim
