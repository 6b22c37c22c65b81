#include "experiments/tools/bench/rank/operations.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace ringside::tools::bench {
namespace {

/// Small whole numbers, whose sums over ranks are exact in every order.
float value(int rank, std::int64_t i) { return static_cast<float>(rank + 1 + i % 31); }

float sum_of_values(int ranks, std::int64_t i) {
  return static_cast<float>(ranks * (ranks + 1) / 2 + ranks * (i % 31));
}

/// The number of elements for which `expected` does not return the element.
template <class Expected>
std::int64_t differing(std::span<const float> values, Expected expected) {
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < std::ssize(values); ++i)
    wrong += values[static_cast<std::size_t>(i)] != expected(i) ? 1 : 0;
  return wrong;
}

void fill_array(std::span<float> array, int rank, int) {
  for (std::int64_t i = 0; i < std::ssize(array); ++i)
    array[static_cast<std::size_t>(i)] = value(rank, i);
}

void fill_part(std::span<float> array, int rank, int ranks) {
  std::fill(array.begin(), array.end(), -1.0F);
  const std::int64_t n = std::ssize(array) / ranks;
  for (std::int64_t i = rank * n; i < (rank + 1) * n; ++i)
    array[static_cast<std::size_t>(i)] = value(rank, i);
}

std::int64_t check_sums(std::span<const float> result, int, int ranks) {
  return differing(result, [&](std::int64_t i) { return sum_of_values(ranks, i); });
}

std::int64_t check_part_of_sums(std::span<const float> result, int rank, int ranks) {
  const std::int64_t first = rank * std::ssize(result);
  return differing(result, [&](std::int64_t i) { return sum_of_values(ranks, first + i); });
}

std::int64_t check_gathered(std::span<const float> result, int, int ranks) {
  const std::int64_t n = std::ssize(result) / ranks;
  return differing(result, [&](std::int64_t i) { return value(static_cast<int>(i / n), i); });
}

std::int64_t check_first(std::span<const float> result, int, int) {
  return differing(result, [](std::int64_t i) { return value(0, i); });
}

/// Part i is part `rank` of what rank i began with.
std::int64_t check_exchanged(std::span<const float> result, int rank, int ranks) {
  const std::int64_t n = std::ssize(result) / ranks;
  return differing(
      result, [&](std::int64_t i) { return value(static_cast<int>(i / n), rank * n + i % n); });
}

double once(double ranks) { return (ranks - 1) / ranks; }
double twice(double ranks) { return 2 * once(ranks); }
double whole(double) { return 1; }

}  // namespace

const std::vector<CommOperation>& comm_operations() {
  static const std::vector<CommOperation> rows = {
      {"all_reduce", "sum", false, false, fill_array, check_sums, twice},
      {"reduce_scatter", "sum", true, true, fill_array, check_part_of_sums, once},
      {"all_gather", "none", true, false, fill_part, check_gathered, once},
      {"broadcast", "none", false, false, fill_array, check_first, whole},
      {"all_to_all", "none", true, false, fill_array, check_exchanged, once},
  };
  return rows;
}

const CommOperation& find_comm_operation(std::string_view name) {
  std::vector<std::string> known;
  for (const CommOperation& row : comm_operations()) {
    if (row.name == name) return row;
    known.emplace_back(row.name);
  }
  throw Error("unknown operation '{}'; did you mean '{}'?", name,
              nearest(std::string(name), known));
}

}  // namespace ringside::tools::bench
