// The two kinds of ranks of `ringside bench comm`.
#pragma once

#include <functional>
#include <vector>

#include "experiments/benchmark/comm_bench.h"
#include "experiments/benchmark/comm_operations.h"

namespace ringside {

/// A row with the `us` microseconds of every call.
CommRow measured(const CommOperation& operation, Algorithm algorithm, int world, std::int64_t count,
                 std::vector<double> us);

using Report = std::function<void(const CommRow&)>;

/// All operations, sizes and algorithms at one world, between processes of this host. The calling
/// process is rank 0, and must have one thread.
void bench_processes(const CommBench& bench, int world, const Report& report);
inline constexpr int most_processes = 64;

/// The same between simulated ranks: one call each, in virtual time.
void bench_simulation(const CommBench& bench, int world, const Report& report);

}  // namespace ringside
