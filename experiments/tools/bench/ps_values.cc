#include "experiments/tools/bench/ps_values.h"

#include <algorithm>
#include <vector>

namespace ringside::tools::bench {
namespace {

constexpr std::int64_t period = 31;
constexpr std::int64_t stride = 7;  // from round to round

/// What all workers' gradients have in common: gradient = this + worker + 1.
std::int64_t common(std::int64_t element, std::int64_t round) {
  return (element + stride * round) % period;
}

/// Gradients of one round, added up: how many they are, and the sum of their workers' numbers,
/// counted from 1.
struct Sum {
  std::int64_t round, gradients, numbers;
};

/// The number of elements that are not minus this sum.
std::int64_t count_other(std::span<const float> values, std::int64_t first, const Sum& sum) {
  std::int64_t wrong = 0, phase = common(first, sum.round);
  for (const float value : values) {
    const std::int64_t expected = sum.numbers + sum.gradients * phase;
    wrong += value != -static_cast<float>(expected) ? 1 : 0;
    if (++phase == period) phase = 0;
  }
  return wrong;
}

/// The sums of which a range may consist.
std::vector<Sum> allowed_sums(std::int64_t round, std::int64_t workers,
                              ps::Consistency consistency) {
  const auto all = [&](std::int64_t of) { return Sum{of, workers, workers * (workers + 1) / 2}; };
  switch (consistency) {
    case ps::Consistency::bsp:
      return {all(round)};
    case ps::Consistency::ssp:
      return {all(round), round > 0 ? all(round - 1) : Sum{0, 0, 0}};
    case ps::Consistency::asp:
    case ps::Consistency::easgd:  // pushes no gradients, so no bench asks for it
      break;
  }
  std::vector<Sum> sums;
  for (std::int64_t number = 1; number <= workers; ++number) sums.push_back({round, 1, number});
  return sums;
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
                                std::int64_t round, int workers, ps::Consistency consistency) {
  std::int64_t least = std::ssize(values);
  for (const Sum& sum : allowed_sums(round, workers, consistency)) {
    least = std::min(least, count_other(values, first, sum));
    if (least == 0) break;
  }
  return least;
}

}  // namespace ringside::tools::bench
