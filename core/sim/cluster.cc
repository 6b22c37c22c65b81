#include "core/sim/cluster.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace ringside::sim {

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

}  // namespace ringside::sim
