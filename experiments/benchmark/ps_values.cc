#include "experiments/benchmark/ps_values.h"

#include <algorithm>
#include <limits>

namespace ringside {
namespace {

constexpr std::int64_t period = 31;
constexpr std::int64_t stride = 7;  // from round to round

/// What all workers' gradients have in common: gradient = this + worker + 1.
std::int64_t common(std::int64_t element, std::int64_t round) {
  return (element + stride * round) % period;
}

/// The number of elements that are not minus the sum of `some` gradients whose workers, counted
/// from 1, add up to `numbers`.
std::int64_t count_other(std::span<const float> values, std::int64_t first, std::int64_t round,
                         std::int64_t some, std::int64_t numbers) {
  std::int64_t wrong = 0, phase = common(first, round);
  for (const float value : values) {
    wrong += value != -static_cast<float>(numbers + some * phase) ? 1 : 0;
    if (++phase == period) phase = 0;
  }
  return wrong;
}

}  // namespace

void fill_gradient(std::span<float> gradient, int worker, std::int64_t round) {
  std::int64_t phase = common(0, round);
  for (float& element : gradient) {
    element = static_cast<float>(worker + 1 + phase);
    if (++phase == period) phase = 0;
  }
}

std::int64_t count_wrong_values(std::span<const float> values, std::int64_t first,
                                std::int64_t round, int workers, bool all) {
  const std::int64_t n = workers;
  if (all) return count_other(values, first, round, n, n * (n + 1) / 2);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t some = 1; some <= n && least > 0; ++some) {
    // The first element says which workers they can be.
    const double numbers = -static_cast<double>(values.empty() ? 0.0F : values[0]) -
                           static_cast<double>(some * common(first, round));
    const std::int64_t fewest = some * (some + 1) / 2, most = some * (2 * n - some + 1) / 2;
    if (numbers >= static_cast<double>(fewest) && numbers <= static_cast<double>(most))
      least = std::min(least,
                       count_other(values, first, round, some, static_cast<std::int64_t>(numbers)));
  }
  return std::min(least, static_cast<std::int64_t>(std::ssize(values)));
}

}  // namespace ringside
