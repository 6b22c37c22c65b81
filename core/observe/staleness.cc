#include "core/observe/staleness.h"

#include <algorithm>
#include <cmath>

namespace ringside {
namespace {

constexpr std::size_t most_updates = 1024, most_times = 1400;
constexpr double first_time_s = 1e-6, growth = 1.02;

void count(std::vector<std::int64_t>& counts, std::size_t at, std::size_t most,
           std::int64_t number = 1) {
  at = std::min(at, most - 1);
  if (counts.size() <= at) counts.resize(at + 1);
  counts[at] += number;
}

}  // namespace

void Staleness::add(std::int64_t stale_updates, double seconds) {
  count(updates, static_cast<std::size_t>(std::max<std::int64_t>(0, stale_updates)), most_updates);
  const double bin = std::log(std::max(seconds, first_time_s) / first_time_s) / std::log(growth);
  count(times, static_cast<std::size_t>(std::lround(bin)), most_times);
}

void Staleness::add(const Staleness& other) {
  for (std::size_t i = 0; i < other.updates.size(); ++i)
    count(updates, i, most_updates, other.updates[i]);
  for (std::size_t i = 0; i < other.times.size(); ++i) count(times, i, most_times, other.times[i]);
  dropped += other.dropped;
}

double Staleness::time_of_bin(std::size_t bin) {
  return first_time_s * std::pow(growth, static_cast<double>(bin));
}

Fields fields_of(Staleness& staleness) {
  return {{"updates", &staleness.updates},
          {"times", &staleness.times},
          {"dropped", &staleness.dropped}};
}

}  // namespace ringside
