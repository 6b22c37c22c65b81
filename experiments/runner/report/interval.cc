#include "experiments/runner/report/interval.h"

#include <algorithm>
#include <cstdint>

#include "core/num/random.h"

namespace ringside::runner {
namespace {

constexpr std::uint32_t resamples = 2000;
constexpr std::size_t beyond_each_end = resamples / 40;  // of the sorted medians: 2.5%

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Interval> median_interval(const std::vector<double>& values) {
  if (values.size() < 2) return {};
  std::vector<double> medians;
  for (std::uint32_t resample = 0; resample < resamples; ++resample) {
    std::vector<double> drawn;
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint64_t bits = philox({resample, i, 0, 0}, {0, 0})[0];
      drawn.push_back(values[static_cast<std::size_t>(bits * values.size() >> 32)]);
    }
    medians.push_back(median(std::move(drawn)));
  }
  std::sort(medians.begin(), medians.end());
  return Interval{medians[beyond_each_end], medians[resamples - 1 - beyond_each_end]};
}

}  // namespace ringside::runner
