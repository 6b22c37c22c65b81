// Sums of squares without rounding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/cpu/parallel.h"
#include "core/num/exact_sum.h"
#include "core/tensor/tensor.h"

namespace ringside::cpu {

/// The most values that add_squares() takes.
constexpr std::int64_t squares_block = 2048;

/// Adds the squares of `count` values, at most squares_block, to `sum`.
void add_squares(const float* values, std::int64_t count, ExactSum& sum);

/// Calls add(block, sum) for all blocks in [0, blocks) on up to `threads` threads, each with a sum
/// of its own and at least `grain` blocks, and returns the total. Sum is ExactSum, or a struct of
/// several of them with a function add() of its own.
template <class Sum = ExactSum, class AddBlock>
Sum exact_sum(int threads, std::int64_t blocks, std::int64_t grain, const AddBlock& add) {
  std::vector<Sum> of_threads(static_cast<std::size_t>(threads));
  parallel_for(threads, blocks, grain, [&](std::int64_t first, std::int64_t last, int thread) {
    Sum& sum = of_threads[static_cast<std::size_t>(thread)];
    for (std::int64_t block = first; block < last; ++block) add(block, sum);
  });
  for (std::size_t t = 1; t < of_threads.size(); ++t) of_threads[0].add(of_threads[t]);
  return of_threads[0];
}

/// The place of sum `i` in a tensor of stored sums.
inline std::span<double, ExactSum::digits> stored_sum(const Tensor& sums, std::size_t i) {
  return std::span<double, ExactSum::digits>(sums.data<double>() + i * ExactSum::digits,
                                             ExactSum::digits);
}

}  // namespace ringside::cpu
