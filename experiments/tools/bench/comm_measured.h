// The two kinds of ranks of `ringside bench comm`.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "experiments/tools/bench/comm_bench.h"
#include "experiments/tools/bench/rank/operations.h"

namespace ringside::tools::bench {

/// A row with the `us` microseconds of every call.
CommRow measured(const CommOperation& operation, std::optional<Algorithm> algorithm, int world,
                 std::int64_t count, std::vector<double> us);

using Report = std::function<void(const CommRow&)>;

/// All operations, sizes, algorithms and libraries at one world, between processes of this host.
/// The calling process starts them and tells them what to do.
void bench_processes(const CommBench& bench, int world, const Report& report);

/// The same between simulated ranks: one call each, in virtual time.
void bench_simulation(const CommBench& bench, int world, const Report& report);

}  // namespace ringside::tools::bench
