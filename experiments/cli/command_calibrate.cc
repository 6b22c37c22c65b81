// ringside calibrate
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/base/whole_file.h"
#include "core/plan/run_plan.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/output_files.h"
#include "experiments/config/cluster_file.h"
#include "experiments/plan/checks.h"
#include "experiments/plan/planner.h"

namespace ringside {

namespace {

/// The runs on this machine's processor that the experiment files ask for, with as many threads a
/// rank.
std::vector<RunPlan> runs_of(const std::vector<std::string>& files, std::int64_t threads) {
  std::vector<RunPlan> out;
  for (const std::string& file : files) {
    const std::size_t before = out.size();
    for (RunPlan& run : plan_comparison(read_experiment(file, {}), allowed_cores().value_or(0)))
      if (run.device.kind == "cpu" && run.device.threads == threads &&
          run.purpose == Purpose::asked && run.repeat == 0 && run.train.offload == Offload::none)
        out.push_back(std::move(run));
    if (out.size() == before)
      throw Error(
          "{}: no run of it computes on this machine's processor with {} thread{} a rank; leave "
          "the file out, or give --threads as its device.threads",
          file, threads, threads == 1 ? "" : "s");
  }
  check_inputs(out);
  return out;
}

}  // namespace

int calibrate_command(const Arguments& arguments, const Process& process) {
  std::filesystem::path file;
  std::vector<RunPlan> runs;
  try {
    if (arguments.threads < 1 || arguments.threads > most_threads)
      throw Error("--threads {} must lie between 1 and {}", arguments.threads, most_threads);
    std::error_code failed;
    std::filesystem::create_directories(arguments.results, failed);
    if (failed) throw Error("--results {}: {}", arguments.results, failed.message());
    file = check_output("--results", machine_file(arguments.results)).path;
    runs = runs_of(arguments.calibrated, arguments.threads);
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  process.catch_interrupts();
  OutputStream errors(STDERR_FILENO, process.interrupted);
  try {
    const sim::ClusterSpec cluster = calibrate(
        arguments.threads, runs, rank_start(process, errors),
        [&](const std::string& what) { errors << "measuring " << what << " ..." << std::endl; });
    write_whole(file, cluster_text(cluster, fmt::format("{}. Measured by `ringside calibrate`.",
                                                        cluster.name)));
    std::cout << fmt::format("{}: {:.0f} GFLOP/s a rank, {:.1f} GB/s; written to {}\n",
                             cluster.name, 1e3 * cluster.device.tflops.at("fp32"),
                             cluster.device.bandwidth_gbs, file.string());
    return ok;
  } catch (const std::exception& error) {
    if (process.interrupted()) return complain(was_interrupted, "calibrate: interrupted");
    return complain(run_failed, error.what());
  }
}

}  // namespace ringside
