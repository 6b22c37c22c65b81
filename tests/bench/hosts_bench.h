// Our all-reduce between hosts beside those of the libraries between them, in the same processes.
// tests/hosts/all_reduce_bench.py starts the programs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/store.h"
#include "peer/comm/hosts/communicator.h"

namespace ringside::bench {

struct Library {
  InterHostBackend between;
  /// Its own all-reduce of `count` floats among all ranks, in place.
  std::function<void(float* array, std::int64_t count)> own;
};

/// Calls ours over each library and the library's own, in a new random order in every round, with
/// arrays of 4 KB and of 1, 16 and 100 MB, on ranks of which the first half lives on one host and
/// the second on another, which may be the same. Rank 0 prints a line of JSON for each size and
/// library: medians of the slowest ranks' times, their ratio, and that of the least times.
/// `address` is this rank's for Gloo. All ranks call this function.
void compare_with(const std::vector<Library>& libraries, Store& store, int rank, int ranks,
                  const std::string& address);

}  // namespace ringside::bench
