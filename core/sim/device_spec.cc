#include "core/sim/device_spec.h"

#include <algorithm>
#include <cmath>

namespace ringside::sim {

using enum Range;

double Efficiency::at(double ideal_us) const {
  if (points.empty()) return 0;
  const auto above =
      std::upper_bound(points.begin(), points.end(), ideal_us,
                       [](double time, const auto& point) { return time < point.first; });
  if (above == points.begin()) return points.front().second;
  if (above == points.end()) return points.back().second;
  const auto& [x0, y0] = *(above - 1);
  const auto& [x1, y1] = *above;
  return y0 + (y1 - y0) * std::log(ideal_us / x0) / std::log(x1 / x0);
}

Fields fields_of(DeviceSpec& device) {
  return {{"name", &device.name},
          {"kind", &device.kind},
          {"cores", &device.cores, {}, positive},
          {"busy_share", &device.busy_share, {}, share},
          {"memory_gb", &device.memory_gb, {}, positive},
          {"bandwidth_gbs", &device.bandwidth_gbs, {}, positive},
          {"launch_us", &device.launch_us, {}, not_negative},
          {"tflops", &device.tflops},
          {"efficiency", &device.efficiency},
          {"error", &device.error}};
}

Fields fields_of(TimedOperation& timed) {
  return {{"training", &timed.training},
          {"dtype", &timed.dtype},
          {"kind", &timed.kind},
          {"operations", &timed.operations, {}, not_negative},
          {"bytes", &timed.bytes, {}, not_negative},
          {"us", &timed.us, {}, positive},
          {"memory_us", &timed.memory_us, {}, not_negative}};
}

}  // namespace ringside::sim
