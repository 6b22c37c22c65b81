#include "experiments/tools/cli/calibrated.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/base/error.h"
#include "core/plan/device_traits.h"
#include "core/plan/mesh.h"
#include "core/sim/world.h"
#include "experiments/runner/config/cluster_file.h"
#include "experiments/runner/hosts/job.h"
#include "experiments/runner/hosts/placement.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/cli/command.h"

namespace ringside::tools::cli {

std::optional<runner::CalibratedMachine> calibrated_machine(const std::vector<RunPlan>& runs,
                                                            const std::string& results,
                                                            std::string_view without,
                                                            const runner::Job* job) {
  const int hosts = job ? static_cast<int>(runner::rooms_of(job->agents()).size()) : 1;
  const auto file_of = [&](const DeviceConfig& device) {
    return device.cluster.empty() ? machine_file(results, hosts, device.kind) : device.cluster;
  };
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const RunPlan& run) {
    return !run.cluster && run.purpose == Purpose::asked &&
           (!run.device.cluster.empty() || std::filesystem::exists(file_of(run.device)));
  });
  if (found == runs.end()) return {};
  const DeviceConfig& device = found->device;
  const runner::DeviceRow& row = runner::find_device(device.kind);
  const bool named = !device.cluster.empty();
  const std::string file = file_of(device);
  sim::require_simgrid();
  sim::ClusterSpec machine = runner::read_cluster(file);
  const InterHostBackend between = found->hosts.between;
  const bool on_processor = device_traits(device.kind).on_processor;
  const auto here =
      on_processor ? calibrate::calibration_name(device.threads, hosts, between) : row.describe();
  if (machine.name == here)
    return runner::CalibratedMachine{std::move(machine), device.kind, device.threads, between};
  const std::string options = on_processor ? fmt::format("--threads {}", device.threads)
                                           : fmt::format("--device {} FILES", device.kind);
  if (named)
    throw Error(
        "device.cluster: {} describes '{}', but this machine is '{}'; to simulate that cluster, "
        "set device.kind=sim; to predict runs on this machine, use the file that `ringside "
        "calibrate {}` writes",
        file, machine.name, here, options);
  std::cerr << fmt::format(
                   "{}: {} describes '{}', but this machine is '{}'; `ringside calibrate {}` "
                   "measures it",
                   without, file, machine.name, here, options)
            << std::endl;
  return {};
}

bool balances_by_measured_time(const std::vector<RunPlan>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const RunPlan& run) {
    return has_pipeline(run) && !run.cluster && run.pipeline.alike == StagesAlike::operations;
  });
}

}  // namespace ringside::tools::cli
