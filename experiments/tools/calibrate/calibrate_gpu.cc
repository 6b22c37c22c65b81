// Calibration of a GPU.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/device/cost.h"
#include "core/device/sim/timed_operations.h"
#include "core/observe/run_record.h"
#include "core/plan/lone_training.h"
#include "core/sim/cluster_check.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/tools/calibrate/calibrate.h"
#include "experiments/tools/calibrate/curves.h"

namespace ringside::tools::calibrate {
namespace {

/// Median seconds of some calls of `work`, after one that does not count. Waits for the device.
double seconds_of(Device& device, const std::function<void()>& work) {
  constexpr int tries = 7;
  work();
  std::vector<double> seconds;
  for (int i = 0; i < tries; ++i) {
    device.synchronize();
    const double begin = device.clock().now();
    work();
    device.synchronize();
    seconds.push_back(device.clock().now() - begin);
  }
  return quantiles(std::move(seconds)).median;
}

/// Square products of growing size, the last of which takes a while: the fastest is the peak.
void time_products(std::vector<sim::TimedOperation>& out, Device& device, DType dtype, bool tf32) {
  constexpr double enough = 0.005;  // seconds
  double seconds = 0;
  for (std::int64_t n = 256; n <= 8192 && seconds < enough; n *= 2) {
    const auto filled = [&] {
      Tensor tensor = device.tensor({n, n}, MemoryKind::workspace, dtype);
      device.kernels().fill({.out = tensor, .value = 0.5f});
      return tensor;
    };
    const LinearForward product{.x = filled(), .weight = filled(), .y = filled()};
    seconds = seconds_of(device, [&] { device.kernels().linear_forward(product); });
    out.push_back(sim::timed_operation(cost(product), seconds, tf32));
  }
}

/// The link between the host and the device, as batches and messages of servers take it.
sim::LinkSpec measure_host_link(Device& device) {
  constexpr std::int64_t small = 1, large = 1 << 24;  // elements
  const auto seconds = [&](std::int64_t count) {
    const Tensor there = device.tensor({count}, MemoryKind::workspace);
    std::vector<std::byte> here(there.bytes());
    return std::pair{seconds_of(device, [&] { device.write(there, here); }),
                     seconds_of(device, [&] { device.read(there, here); })};
  };
  const auto [write_latency, read_latency] = seconds(small);
  const auto [write, read] = seconds(large);
  const double moving =
      std::max(write - write_latency, 0.1 * write) + std::max(read - read_latency, 0.1 * read);
  return {.gbs = 1e-9 * 2 * 4.0 * static_cast<double>(large) / moving,
          .latency_us = (write_latency + read_latency) / 2 * 1e6};
}

/// The shortest operation is hardly more than the gap between two kernels, which all others have
/// too. Subtracts this gap from all operations; at least a tenth of a short one is left.
double take_off_launches(std::vector<sim::TimedOperation>& ops) {
  constexpr double least_own = 0.1;
  double launch = ops.front().us;
  for (const sim::TimedOperation& op : ops) launch = std::min(launch, op.us);
  for (sim::TimedOperation& op : ops) op.us = std::max(op.us - launch, least_own * op.us);
  return launch;
}

/// Notes the assumed figures of the device: without those that `ops` show, and with `more`.
void note_assumed(sim::ClusterSpec& cluster, const std::vector<sim::TimedOperation>& ops,
                  std::vector<std::string> more) {
  std::set<std::string> measured = {"launch_us"};
  for (const sim::TimedOperation& op : ops)
    measured.insert(fmt::format("efficiency.{}.{}", op.dtype, op.kind));
  const std::string part = "device " + cluster.device.name, every = "efficiency.";
  for (const sim::Assumed& one : cluster.assumed)
    if (one.part == part)
      for (const std::string& key : one.keys) {
        // "efficiency.loss" is that of every dtype.
        const bool of_all = key.starts_with(every) && key.find('.', every.size()) == key.npos;
        if (!of_all) more.push_back(key);
        for (const auto& [dtype, classes] : cluster.device.efficiency)
          if (of_all && classes.contains(key.substr(every.size())))
            more.push_back(every + dtype + "." + key.substr(every.size()));
      }
  std::erase_if(more, [&](const std::string& key) { return measured.contains(key); });
  std::erase_if(cluster.assumed, [&](const sim::Assumed& one) { return one.part == part; });
  if (!more.empty()) cluster.assumed.push_back({part, std::move(more)});
}

/// A machine with one such GPU, and this process's processor.
void measure_around(sim::ClusterSpec& cluster, const RunPlan& run, const CalibrationSite& site,
                    const std::function<void(const std::string&)>& told) {
  told("the link to the host");
  RunPlan plan = lone_training(run);
  site.place(plan);
  {
    const auto device = runner::find_device(plan.device.kind).make(plan, 0, nullptr);
    if (const auto memory = device->memory())
      cluster.device.memory_gb = 1e-9 * static_cast<double>(memory->capacity);
    cluster.pcie = measure_host_link(*device);
  }
  cluster.peer = cluster.nic = cluster.pcie;  // unused, because there is only one GPU
  told("messages");
  const double latency = cluster.pcie.latency_us;
  measure_messages(cluster, plan.device.kind);
  cluster.pcie.latency_us = latency;
  told("operations of the host");
  cluster.host = processor(site.cores);
  CalibrationSite host = site;
  host.place = [](RunPlan&) {};
  host.slots = site.cores;
  measure_device(cluster.host, {Precision::fp32}, 1, host);
}

/// Products in every precision of the runs and in fp32, whose peak all other operations have.
std::vector<sim::TimedOperation> time_products(const std::vector<RunPlan>& runs,
                                               const CalibrationSite& site) {
  std::map<std::pair<DType, bool>, RunPlan> precisions;
  for (const RunPlan& run : runs) {
    RunPlan plan = lone_training(run);
    site.place(plan);
    precisions.emplace(std::pair{parameter_dtype(plan.train), plan.device.tf32}, plan);
    plan.device.tf32 = false;
    precisions.emplace(std::pair{DType::f32, false}, plan);
  }
  std::vector<sim::TimedOperation> out;
  for (const auto& [precision, plan] : precisions) {
    const auto device = runner::find_device(plan.device.kind).make(plan, 0, nullptr);
    time_products(out, *device, precision.first, precision.second);
  }
  return out;
}

}  // namespace

sim::ClusterSpec calibrate_gpu(const std::vector<RunPlan>& runs, const CalibrationSite& site,
                               const std::optional<sim::ClusterSpec>& around,
                               const std::function<void(const std::string&)>& told) {
  const runner::DeviceRow& row = runner::find_device(runs.front().device.kind);
  sim::ClusterSpec cluster = around.value_or(sim::ClusterSpec{});
  cluster.name = row.describe();
  cluster.source =
      around ? fmt::format("{}; its devices as `ringside calibrate` measured one", around->name)
             : "measured by `ringside calibrate`";
  cluster.timed.clear();
  cluster.speeds.clear();
  told("the models");
  CalibrationSite alone = site;
  alone.slots = 1;
  std::vector<sim::TimedOperation> ops = measure_models(cluster, runs, alone);
  std::vector<std::string> assumed;
  if (!around) {
    cluster.device.name = "gpu";
    told("products");
    std::vector<sim::TimedOperation> all = time_products(runs, site);
    all.insert(all.end(), ops.begin(), ops.end());
    set_roofline(cluster.device, all);
    measure_around(cluster, runs.front(), site, told);
  }
  cluster.device.launch_us = take_off_launches(ops);
  set_efficiency(cluster.device, ops);
  if (!around) assumed = complete_efficiency(cluster.device);
  note_assumed(cluster, ops, assumed);
  sim::check(cluster);
  return cluster;
}

}  // namespace ringside::tools::calibrate
