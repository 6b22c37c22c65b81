// ringside bench comm
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/error_text.h"
#include "core/base/nearest.h"
#include "core/base/whole_file.h"
#include "core/plan/device_traits.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/tools/bench/comm_bench.h"
#include "experiments/tools/cli/bench_arguments.h"
#include "experiments/tools/cli/command.h"
#include "experiments/tools/cli/job_start.h"
#include "experiments/tools/cli/output_files.h"

namespace ringside::tools::cli {
namespace {

struct BenchCommArguments {
  std::vector<std::string> operations, algorithms;
  std::vector<std::int64_t> worlds;
  std::vector<std::string> beside;  // other libraries
  DeviceConfig device{};
  std::string cluster;
  BenchArguments bench;
};

void declare_bench_comm(CommandOptions& options, BenchCommArguments& arguments) {
  options
      .add("--operations", arguments.operations,
           "all_reduce, reduce_scatter, all_gather, broadcast or all_to_all; default: all_reduce")
      .list()
      .type("A,B");
  options
      .add("--algorithms", arguments.algorithms,
           "native, ring, tree and so on (see `ringside list algorithms`); default: all but auto "
           "and library, with --beside or --device cuda native alone")
      .list()
      .type("A,B");
  options.add("--worlds", arguments.worlds, "numbers of ranks; default: 2").list().type("N,M");
  add_sizes(options, arguments.bench,
            "bytes of the whole array, as in 4KB,1MB with 1 KB = 1024 bytes; default: 1KB to 64MB");
  options
      .add("--beside", arguments.beside,
           "other libraries, measured in turn with ours: openmpi, openmpi-segmented-ring, mpich, "
           "gloo; `installed`: all that are there; NAME=COMMAND: a driver of one's own")
      .list()
      .type("A,B");
  options
      .add("--device", arguments.device.kind,
           "cpu, or cuda: NCCL between GPUs of this machine, which ranks take in turn; default: "
           "cpu")
      .type("KIND");
  add_measurement(options, arguments.bench, "algorithm and library");
  options
      .add("--cluster", arguments.cluster,
           "simulate the first devices of this cluster (a cluster file)")
      .type("FILE");
}

constexpr std::int64_t most_bench_ranks = 1 << 20;  // more than any cluster has

Algorithm algorithm_named(const std::string& name) {
  if (const auto algorithm = value_named<Algorithm>(name)) return *algorithm;
  std::vector<std::string> known;
  for (const std::string_view one : names_of(Algorithm{})) known.emplace_back(one);
  throw Error("--algorithms {}: unknown algorithm; did you mean '{}'?", name, nearest(name, known));
}

bench::CommBench comm_bench_of(const BenchCommArguments& arguments, const Process& process) {
  bench::CommBench bench;
  bench.operations = arguments.operations;
  if (bench.operations.empty()) bench.operations = {"all_reduce"};
  for (const std::string& name : arguments.algorithms) {
    const Algorithm algorithm = algorithm_named(name);
    if (std::find(bench.algorithms.begin(), bench.algorithms.end(), algorithm) !=
        bench.algorithms.end())
      throw Error("--algorithms: {} is named twice; leave one out", name);
    bench.algorithms.push_back(algorithm);
  }
  // Next to other libraries, the algorithm that schemes use by default. NCCL has no other.
  if (bench.algorithms.empty() &&
      (!arguments.beside.empty() || device_traits(arguments.device.kind).sums_in_library))
    bench.algorithms = {Algorithm::native};
  if (bench.algorithms.empty())
    for (const std::string_view name : names_of(Algorithm{}))
      if (const Algorithm algorithm = *value_named<Algorithm>(name);
          algorithm == Algorithm::native || is_program_of_messages(algorithm))
        bench.algorithms.push_back(algorithm);
  for (const std::int64_t world : arguments.worlds)
    bench.worlds.push_back(static_cast<int>(std::clamp<std::int64_t>(world, 0, most_bench_ranks)));
  if (bench.worlds.empty()) bench.worlds = {2};
  bench.sizes = arguments.bench.sizes;
  if (bench.sizes.empty())
    for (std::int64_t size = 1 << 10; size <= 64 << 20; size *= 4) bench.sizes.push_back(size);
  if (!arguments.cluster.empty()) bench.cluster = runner::read_cluster(arguments.cluster);
  bench.device = arguments.device;
  bench.beside = bench::find_reference_libraries(arguments.beside);
  bench.rounds = static_cast<int>(arguments.bench.rounds);
  bench.timeout_s = arguments.bench.timeout_s;
  bench.program = {process.program, {"rank"}, process.environment};
  bench.interrupted = process.interrupted;
  return bench;
}

nlohmann::ordered_json json_of(const bench::CommBench& bench,
                               const std::vector<bench::CommRow>& rows) {
  nlohmann::ordered_json out = {{"cluster", nullptr}, {"results", nlohmann::json::array()}};
  if (bench.cluster) out["cluster"] = bench.cluster->name;
  for (const bench::CommRow& row : rows) out["results"].push_back(to_json(row));
  return out;
}

int bench_comm(const BenchCommArguments& arguments, const Process& process) {
  bench::CommBench bench;
  try {
    if (arguments.cluster.empty()) check_readable(process);
    check_alone("bench comm", "start it without the launcher", process);
    bench = comm_bench_of(arguments, process);
    check_output("--json", arguments.bench.json);
    check(bench);
  } catch (const std::exception& error) {
    return complain(wrong_input, error_text(error));
  }
  std::vector<bench::CommRow> rows;
  std::cout << bench::heading_of_rows() << std::flush;
  // A simulation does not test for interrupts, and leaves nothing to clean up.
  if (!bench.cluster) process.catch_interrupts();
  try {
    bench::run_comm_bench(bench, [&](const bench::CommRow& row) {
      std::cout << text_of(row) << std::flush;
      rows.push_back(row);
    });
  } catch (const std::exception& error) {
    if (process.interrupted()) return complain(was_interrupted, "bench comm: interrupted");
    return complain(run_failed, error_text(error));
  }
  std::cout << bench::notes_of(rows);
  if (!arguments.bench.json.empty())
    write_whole(arguments.bench.json, json_of(bench, rows).dump(2) + "\n");
  const bool wrong = std::any_of(rows.begin(), rows.end(), [](const bench::CommRow& row) {
    return row.wrong.value_or(0) > 0;
  });
  return wrong ? run_failed : ok;
}

}  // namespace

Execute bench_comm_command(CommandOptions& options) {
  options.summary(
      "collectives by operation, size, algorithm and number of ranks, between processes of this "
      "machine or on a simulated cluster, in the columns of nccl-tests");
  options.uses_cores();
  const auto arguments = std::make_shared<BenchCommArguments>();
  declare_bench_comm(options, *arguments);
  return [arguments](const Process& process) { return bench_comm(*arguments, process); };
}

}  // namespace ringside::tools::cli
