#include "experiments/tools/calibrate/calibrate.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/sim/cluster_check.h"

namespace ringside::tools::calibrate {

std::string calibration_name(std::int64_t threads, int hosts, InterHostBackend between) {
  return fmt::format("{}{}, {} thread{} a rank{}",
                     hosts > 1 ? fmt::format("{} hosts: ", hosts) : "", processor_name(), threads,
                     threads == 1 ? "" : "s",
                     hosts > 1 ? fmt::format(", {} between hosts", name_of(between)) : "");
}

sim::DeviceSpec processor(std::int64_t ranks) {
  sim::DeviceSpec out;
  out.name = "processor";
  out.kind = sim::DeviceKind::cpu;
  out.cores = ranks;
  out.memory_gb = 1e-9 * static_cast<double>(allowed_memory());
  return out;
}

sim::ClusterSpec calibrate(std::int64_t threads, const std::vector<RunPlan>& runs,
                           const CalibrationSite& site,
                           const std::function<void(const std::string&)>& told) {
  sim::ClusterSpec cluster;
  cluster.name = calibration_name(threads, site.hosts, site.between);
  cluster.source = "measured by `ringside calibrate`";
  cluster.device = processor(std::max<std::int64_t>(1, site.cores / threads));
  told("operations");
  std::set<Precision> precisions = {Precision::fp32};
  for (const RunPlan& run : runs) precisions.insert(run.train.precision);
  if (runs.empty()) precisions = {Precision::fp32, Precision::bf16, Precision::fp16};
  measure_device(cluster.device, precisions, threads, site);
  cluster.host = cluster.device;
  // Ranks of a machine send through its memory, so every link has the memory's bandwidth. Nothing
  // is sent through the NIC of a cluster of one machine.
  cluster.pcie = {.gbs = cluster.device.bandwidth_gbs};
  cluster.peer = cluster.pcie;
  cluster.nic = cluster.pcie;
  told("collectives");
  measure_collectives(cluster, threads);
  told("messages");
  measure_messages(cluster, "cpu");
  if (site.hosts > 1) {
    told("the network");
    measure_network(cluster, threads, site);
  }
  if (!runs.empty()) {
    told("the models");
    measure_models(cluster, runs, site);
  }
  sim::check(cluster);
  return cluster;
}

}  // namespace ringside::tools::calibrate
