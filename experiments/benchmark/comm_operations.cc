#include "experiments/benchmark/comm_operations.h"

#include <string>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace ringside {
namespace {

/// Small whole numbers, whose sums over ranks are exact in every order.
float value(int rank, std::int64_t i) { return static_cast<float>(rank + 1 + i % 31); }

float sum_of_values(int ranks, std::int64_t i) {
  return static_cast<float>(ranks * (ranks + 1) / 2 + ranks * (i % 31));
}

/// The number of elements for which `expected` does not return the element.
template <class Expected>
std::int64_t differing(const Tensor& tensor, Expected expected) {
  std::int64_t wrong = 0;
  const float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.count(); ++i) wrong += values[i] != expected(i) ? 1 : 0;
  return wrong;
}

void set(const Tensor& tensor, int rank, std::int64_t first) {
  float* values = tensor.data<float>();
  for (std::int64_t i = 0; i < tensor.count(); ++i) values[i] = value(rank, first + i);
}

void fill_array(const Tensor& array, const Tensor&, int rank) { set(array, rank, 0); }

void fill_part(const Tensor&, const Tensor& part, int rank) {
  set(part, rank, rank * part.count());
}

double once(double ranks) { return (ranks - 1) / ranks; }
double twice(double ranks) { return 2 * once(ranks); }
double whole(double) { return 1; }

}  // namespace

const std::vector<CommOperation>& comm_operations() {
  static const std::vector<CommOperation> rows = {
      {"all_reduce", "sum", false, fill_array,
       [](Communicator& comm, const Tensor& array, const Tensor&) {
         return comm.all_reduce(array);
       },
       [](const Tensor& array, const Tensor&, int, int ranks) {
         return differing(array, [&](std::int64_t i) { return sum_of_values(ranks, i); });
       },
       twice},
      {"reduce_scatter", "sum", true, fill_array,
       [](Communicator& comm, const Tensor& array, const Tensor& part) {
         return comm.reduce_scatter(array, part);
       },
       [](const Tensor&, const Tensor& part, int rank, int ranks) {
         const std::int64_t first = rank * part.count();
         return differing(part, [&](std::int64_t i) { return sum_of_values(ranks, first + i); });
       },
       once},
      {"all_gather", "none", true, fill_part,
       [](Communicator& comm, const Tensor& array, const Tensor& part) {
         return comm.all_gather(part, array);
       },
       [](const Tensor& array, const Tensor& part, int, int) {
         return differing(
             array, [&](std::int64_t i) { return value(static_cast<int>(i / part.count()), i); });
       },
       once},
      {"broadcast", "none", false, fill_array,
       [](Communicator& comm, const Tensor& array, const Tensor&) {
         return comm.broadcast(array, 0);
       },
       [](const Tensor& array, const Tensor&, int, int) {
         return differing(array, [](std::int64_t i) { return value(0, i); });
       },
       whole},
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

}  // namespace ringside
