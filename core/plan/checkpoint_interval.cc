#include "core/plan/checkpoint_interval.h"

#include <cmath>

namespace ringside {

double young_interval_s(double cost_s, double mtbf_s) { return std::sqrt(2 * cost_s * mtbf_s); }

double daly_interval_s(double cost_s, double mtbf_s) {
  if (cost_s >= 2 * mtbf_s) return mtbf_s;
  const double x = std::sqrt(cost_s / (2 * mtbf_s));
  return young_interval_s(cost_s, mtbf_s) * (1 + x / 3 + x * x / 9) - cost_s;
}

double expected_time_s(double work_s, double interval_s, double cost_s, double restart_s,
                       double mtbf_s) {
  return mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((interval_s + cost_s) / mtbf_s) *
         work_s / interval_s;
}

}  // namespace ringside
