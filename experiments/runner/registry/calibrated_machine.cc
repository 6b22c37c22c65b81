#include "experiments/runner/registry/calibrated_machine.h"

#include <set>
#include <tuple>
#include <vector>

#include "core/plan/lone_training.h"

namespace ringside::runner {

bool has_devices_of(const RunPlan& run, const CalibratedMachine& machine) {
  if (run.cluster || run.device.kind != machine.device) return false;
  return machine.cluster.device.kind != sim::DeviceKind::cpu ||
         run.device.threads == machine.threads;
}

sim::ClusterSpec calibrated_for(const RunPlan& run, const sim::ClusterSpec& machine) {
  const std::string training = lone_training_name(run);
  const auto key = [](const sim::TimedOperation& one) {
    return std::tuple(one.dtype, one.kind, one.operations, one.bytes);
  };
  std::set<std::tuple<std::string, std::string, double, double>> own;
  for (const sim::TimedOperation& one : machine.timed)
    if (one.training == training) own.insert(key(one));
  std::vector<sim::TimedOperation> timed;
  for (const sim::TimedOperation& one : machine.timed)
    if (one.training == training || !own.contains(key(one))) timed.push_back(one);
  sim::ClusterSpec out = machine;
  out.timed = std::move(timed);
  return out;
}

}  // namespace ringside::runner
