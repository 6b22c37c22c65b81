#include "experiments/runner/run/predict.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/plan/places.h"
#include "core/plan/same_run.h"

namespace ringside::runner {
namespace {

// The warm-up ends with a drain (SyncScheme::drain), so the first measured step lacks the exchange
// of the step before, and the last one waits for its own. Schemes whose replicas average now and
// then have some longer steps too. The median of this many steps is a typical step.
constexpr std::int64_t warmup = 2, steps = warmup + 9;

template <class Known>
const Known* find(const std::vector<Known>& all, const RunPlan& plan) {
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Known& one) { return same_case(one.plan, plan); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

RunPlan prediction_plan(const RunPlan& measured, const sim::ClusterSpec& machine) {
  RunPlan plan = measured;
  plan.id += "-predicted";
  plan.device.kind = "sim";
  plan.cluster = calibrated_for(measured, machine);
  plan.checkpoint = {};
  plan.resume = {};
  plan.faults = {};
  plan.sim.numerics = false;
  plan.train.steps = steps;
  plan.train.warmup = warmup;
  plan.train.evaluate_every = 0;
  return plan;
}

Predictor::Predictor(std::optional<CalibratedMachine> machine, RankStart start)
    : machine_(std::move(machine)), start_(std::move(start)) {}

std::optional<Prediction> Predictor::predict(const RunPlan& measured) {
  // A slowed worker waits until its clock has advanced, and virtual time does not advance by
  // itself.
  const bool slowed = !measured.device.slow.empty() || measured.device.jitter > 0;
  if (!describes(measured) || measured.program || slowed || measured.sums.unknown_order ||
      measured.train.offload != Offload::none ||
      (spans_hosts(measured) && measured.hosts.between != machine_->between))
    return {};
  if (const auto* known = find(predicted_, measured)) return known->answer;
  const RunPlan plan = prediction_plan(measured, machine_->cluster);
  const RunRecord row = run_plan(plan, start_, [](const Step&) {}).row;
  const bool worked = row.status == "ok";
  predicted_.push_back(
      {measured, Prediction{row.step_ms.median, worked ? simulate_bounds(plan) : std::nullopt,
                            memory_peak(row), row.error}});
  return predicted_.back().answer;
}

bool Predictor::describes(const RunPlan& measured) const {
  if (!machine_ || !has_devices_of(measured, *machine_)) return false;
  const sim::ClusterSpec& cluster = machine_->cluster;
  if (cluster.device.kind == sim::DeviceKind::cpu) return true;
  return !shares_device(measured) && !spans_hosts(measured) &&
         measured.world <= cluster.machines * cluster.devices;
}

std::optional<Peak> Predictor::peak(const RunPlan& measured) const {
  if (!describes(measured)) return {};
  const sim::DeviceSpec& device = machine_->cluster.device;
  const std::string dtype = products_dtype(measured);
  const auto found = device.tflops.find(dtype);
  if (found == device.tflops.end()) return {};
  if (device.kind == sim::DeviceKind::gpu)
    return Peak{1e12 * found->second, dtype, "of the machine that `ringside calibrate` wrote"};
  return Peak{1e12 * found->second, dtype,
              fmt::format("the fastest product of {} thread{} that `ringside calibrate` measured",
                          machine_->threads, machine_->threads == 1 ? "" : "s")};
}

std::optional<StepBounds> Predictor::bounds(const RunPlan& simulated) {
  if (!simulated.cluster || !simulated.sim.intervals || simulated.purpose == Purpose::reference)
    return {};
  if (const auto* known = find(bounded_, simulated)) return known->answer;
  bounded_.push_back({simulated, simulate_bounds(simulated)});
  return bounded_.back().answer;
}

std::vector<RunPlan> bound_plans(const RunPlan& simulated) {
  if (!sim::states_errors(*simulated.cluster, products_dtype(simulated))) return {};
  std::vector<RunPlan> plans;
  for (const sim::Bound bound : {sim::Bound::fast, sim::Bound::slow}) {
    RunPlan at = simulated;
    at.id += bound == sim::Bound::fast ? "-fast" : "-slow";
    at.cluster = sim::at_bound(*simulated.cluster, products_dtype(simulated), bound);
    at.sim.numerics = false;
    plans.push_back(std::move(at));
  }
  return plans;
}

std::optional<StepBounds> bounds_of(const std::vector<RunPlan>& plans,
                                    const std::vector<RunOutcome>& outcomes) {
  for (const RunOutcome& one : outcomes)
    if (one.interrupted || one.row.status != "ok") return {};
  const double of_step = plans.front().world > 1 ? 1 + plans.front().cluster->error : 1;
  return StepBounds{outcomes.front().row.step_ms.median / of_step,
                    outcomes.back().row.step_ms.median * of_step};
}

std::optional<StepBounds> Predictor::simulate_bounds(const RunPlan& plan) const {
  const std::vector<RunPlan> plans = bound_plans(plan);
  std::vector<RunOutcome> outcomes;
  for (const RunPlan& one : plans) {
    outcomes.push_back(run_plan(one, start_, [](const Step&) {}));
    if (outcomes.back().interrupted || outcomes.back().row.status != "ok") return {};
  }
  return plans.empty() ? std::nullopt : bounds_of(plans, outcomes);
}

}  // namespace ringside::runner
