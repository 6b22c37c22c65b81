// Our all-reduce between hosts beside a library's own, in the same processes.
#pragma once

#include <cstdint>
#include <functional>

#include "core/comm/store.h"
#include "peer/comm/hosts/communicator.h"

namespace ringside::bench {

/// The library's own all-reduce of `count` floats among all ranks, in place.
using LibrarysOwn = std::function<void(float* array, std::int64_t count)>;

/// Calls both in turn, with arrays of 4 KB and of 1, 16 and 100 MB, on ranks that pretend to live
/// on two hosts. Rank 0 prints medians of the slowest ranks' times and their ratio. All ranks call
/// this function.
void compare_with(Between between, Store& store, int rank, int ranks, const LibrarysOwn& own);

}  // namespace ringside::bench
