#include "experiments/run/predict.h"
#include "core/plan/same_run.h"

#include <algorithm>

namespace ringside {
namespace {

// All steps from the second on take the same virtual time. With servers this holds only from the
// third on, because communication of one step runs on into the next.
constexpr std::int64_t warmup = 2, steps = 4;

}  // namespace

RunPlan prediction_plan(const RunPlan& measured, const sim::ClusterSpec& machine) {
  RunPlan plan = measured;
  plan.id += "-predicted";
  plan.device.kind = "sim";
  plan.cluster = machine;
  plan.sim.numerics = false;
  plan.train.steps = steps;
  plan.train.warmup = warmup;
  plan.train.evaluate_every = 0;
  return plan;
}

Predictor::Predictor(std::optional<CalibratedMachine> machine, RankStart start)
    : machine_(std::move(machine)), start_(std::move(start)) {}

std::optional<Prediction> Predictor::predict(const RunPlan& measured) {
  if (!machine_ || measured.cluster || measured.device.kind != "cpu" ||
      measured.device.threads != machine_->threads || measured.train.offload != Offload::none)
    return {};
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const Case& one) { return same_case(one.plan, measured); });
  if (found != known_.end()) return found->prediction;
  Case one{measured, {}};
  const Row row =
      run_plan(prediction_plan(measured, machine_->cluster), start_, [](const Step&) {}).row;
  one.prediction = {row.step_ms.median, memory_peak(row), row.error};
  known_.push_back(one);
  return one.prediction;
}

}  // namespace ringside
