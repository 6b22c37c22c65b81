// The operations of `ringside bench comm`: how they are run, checked and rated.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/comm/communicator.h"

namespace ringside {

/// An operation on an array of `count` fp32 elements. The functions get `array`, which holds all
/// elements, and `part`, which holds this rank's: elements [rank, rank + 1) * count / ranks.
struct CommOperation {
  std::string_view name;       // as in nccl-tests
  std::string_view reduction;  // "sum" or "none"
  bool in_parts;               // the array consists of equal parts, one for each rank
  /// Writes the values with which rank `rank` begins.
  void (*fill)(const Tensor& array, const Tensor& part, int rank);
  WorkPtr (*begin)(Communicator& comm, const Tensor& array, const Tensor& part);
  /// The number of elements that are not exactly what they have to be.
  std::int64_t (*count_wrong)(const Tensor& array, const Tensor& part, int rank, int ranks);
  /// The bandwidth of the busiest link, as a multiple of bytes / time (nccl-tests, PERFORMANCE.md).
  double (*bus_factor)(double ranks);
};

/// The number of elements of an array of about `bytes` bytes.
inline std::int64_t count_of(const CommOperation& operation, std::int64_t bytes, int ranks) {
  return operation.in_parts ? bytes / 4 / ranks * ranks : bytes / 4;
}

/// all_reduce, reduce_scatter, all_gather and broadcast.
const std::vector<CommOperation>& comm_operations();
/// Throws Error that tells the most similar name if there is none of this name.
const CommOperation& find_comm_operation(std::string_view name);

}  // namespace ringside
