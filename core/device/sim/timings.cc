#include "core/device/sim/timings.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/device/sim/sim_device.h"

namespace ringside::sim {
namespace {

constexpr DType known_dtypes[] = {DType::f32, DType::bf16, DType::f16};

/// Figures exist for fp32 and the two 16-bit types; all other dtypes use those of fp32.
std::size_t index_of(DType dtype) { return dtype == DType::bf16 ? 1 : dtype == DType::f16 ? 2 : 0; }

/// The name of the dtype whose figures in `device` apply to operations of this class and dtype.
std::string figures_name(OpClass kind, DType dtype, const DeviceSpec& device, bool tf32) {
  const std::string name(name_of(known_dtypes[index_of(dtype)]));
  if (!is_product(kind)) return device.tflops.contains(name) ? name : "fp32";
  return dtype == DType::f32 && tf32 ? "tf32" : name;
}

double peak(const std::string& dtype, const DeviceSpec& device) {
  const auto found = device.tflops.find(dtype);
  if (found != device.tflops.end()) return found->second * 1e12;
  std::vector<std::string> known;
  for (const auto& [name, tflops] : device.tflops) known.push_back(name);
  throw Error("device {}: tflops.{} is missing; the device has figures for {}", device.name, dtype,
              fmt::join(known, ", "));
}

const Efficiency& efficiency_of(OpClass kind, const std::string& dtype, const DeviceSpec& device) {
  const auto classes = device.efficiency.find(dtype);
  if (classes != device.efficiency.end())
    for (auto one = std::optional(kind); one; one = stand_in(*one)) {
      const auto curve = classes->second.find(std::string(name_of(*one)));
      if (curve != classes->second.end() && !curve->second.points.empty()) return curve->second;
    }
  throw Error("device {}: efficiency.{}.{} is missing; add it to the cluster file", device.name,
              dtype, name_of(kind));
}

/// The peak of products is that of their dtype, and that of all other operations that of fp32.
double peak_of(OpClass kind, const std::string& dtype, const DeviceSpec& device) {
  return peak(is_product(kind) ? dtype : "fp32", device);
}

double ideal_seconds(const OpCost& cost, double operations_per_s, const DeviceSpec& device) {
  return std::max(cost.operations / operations_per_s, cost.bytes / (device.bandwidth_gbs * 1e9));
}

double with_efficiency(double ideal, const Efficiency& efficiency, const DeviceSpec& device) {
  return ideal / efficiency.at(ideal * 1e6) + device.launch_us * 1e-6;
}

}  // namespace

Timings::Timings(const DeviceSpec& device, bool tf32, const std::vector<TimedOperation>& timed)
    : device_(device), tf32_(tf32), timed_(timed) {
  for (std::size_t i = 0; i < op_classes; ++i)
    for (const DType dtype : known_dtypes) {
      const auto kind = static_cast<OpClass>(i);
      Figures& figures = figures_[i][index_of(dtype)];
      figures.dtype = figures_name(kind, dtype, device, tf32);
      if (dtype != DType::f32 && !device.tflops.contains(figures.dtype)) continue;
      figures.operations_per_s = peak_of(kind, figures.dtype, device);
      figures.efficiency = efficiency_of(kind, figures.dtype, device);
    }
}

OpTime Timings::time(const OpCost& cost) {
  const Figures& figures = figures_[static_cast<std::size_t>(cost.kind)][index_of(cost.dtype)];
  if (const auto known = timed_.time(cost, figures.dtype)) return *known;
  if (figures.operations_per_s == 0) return {seconds_of(cost, device_, tf32_)};
  return {with_efficiency(ideal_seconds(cost, figures.operations_per_s, device_),
                          figures.efficiency, device_)};
}

double seconds_of(const OpCost& cost, const DeviceSpec& device, bool tf32) {
  const std::string dtype = figures_name(cost.kind, cost.dtype, device, tf32);
  const double ideal = ideal_seconds(cost, peak_of(cost.kind, dtype, device), device);
  return with_efficiency(ideal, efficiency_of(cost.kind, dtype, device), device);
}

double ideal_seconds_of(const TimedOperation& timed, const DeviceSpec& device) {
  const OpClass kind = class_of(timed);
  return ideal_seconds({kind, timed.operations, timed.bytes}, peak_of(kind, timed.dtype, device),
                       device);
}

}  // namespace ringside::sim
