// ringside calibrate
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "core/plan/run_plan.h"
#include "experiments/calibrate/calibrate.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/output_files.h"
#include "experiments/config/cluster_file.h"

namespace ringside {

int calibrate_command(const Arguments& arguments) {
  std::filesystem::path file;
  try {
    if (arguments.threads < 1 || arguments.threads > most_threads)
      throw Error("--threads {} must lie between 1 and {}", arguments.threads, most_threads);
    std::error_code failed;
    std::filesystem::create_directories(arguments.results, failed);
    if (failed) throw Error("--results {}: {}", arguments.results, failed.message());
    file = check_output("--results", machine_file(arguments.results)).path;
  } catch (const std::exception& error) {
    return complain(wrong_input, error.what());
  }
  try {
    const sim::ClusterSpec cluster = calibrate(arguments.threads, [](const std::string& what) {
      std::cerr << "measuring " << what << " ..." << std::endl;
    });
    write_whole(file, cluster_text(cluster, fmt::format("{}. Measured by `ringside calibrate`.",
                                                        cluster.name)));
    std::cout << fmt::format("{}: {:.0f} GFLOP/s a rank, {:.1f} GB/s; written to {}\n",
                             cluster.name, 1e3 * cluster.device.tflops.at("fp32"),
                             cluster.device.bandwidth_gbs, file.string());
    return ok;
  } catch (const std::exception& error) {
    return complain(run_failed, error.what());
  }
}

}  // namespace ringside
