// The operations of `ringside bench comm`: their values, checks and bandwidths. Every rank uses
// these, ours and those of other libraries.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ringside::tools::bench {

/// An operation on an array of `count` fp32 elements. A rank's part of the array is elements
/// [rank, rank + 1) * count / ranks.
struct CommOperation {
  std::string_view name;       // as in nccl-tests
  std::string_view reduction;  // "sum" or "none"
  bool in_parts;               // the array consists of equal parts, one for each rank
  bool gives_part;             // the result of a rank is its part, otherwise `count` elements
  /// Writes what rank `rank` begins with, and into elements that the operation has to write a value
  /// that is wrong.
  void (*fill)(std::span<float> array, int rank, int ranks);
  /// The number of elements of a rank's result that are not exactly what they have to be.
  std::int64_t (*count_wrong)(std::span<const float> result, int rank, int ranks);
  /// The bandwidth of the busiest link, as a multiple of bytes / time (nccl-tests, PERFORMANCE.md).
  double (*bus_factor)(double ranks);
};

/// The number of elements of an array of about `bytes` bytes.
inline std::int64_t count_of(const CommOperation& operation, std::int64_t bytes, int ranks) {
  return operation.in_parts ? bytes / 4 / ranks * ranks : bytes / 4;
}

/// all_reduce, reduce_scatter, all_gather, broadcast (from rank 0) and all_to_all.
const std::vector<CommOperation>& comm_operations();
/// Throws Error that tells the most similar name if there is none of this name.
const CommOperation& find_comm_operation(std::string_view name);

}  // namespace ringside::tools::bench
