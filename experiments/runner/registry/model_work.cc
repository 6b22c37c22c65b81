#include "experiments/runner/registry/model_work.h"

#include <functional>
#include <utility>
#include <vector>

#include "core/data/loader.h"
#include "core/device/counting_device.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

void bind_all(Model& model, Device& device, DType dtype) {
  for (const auto& unit : model.units) {
    const Shape whole = {unit->layout().count()};
    unit->bind(device.tensor(whole, MemoryKind::parameter, dtype),
               device.tensor(whole, MemoryKind::gradient, dtype));
  }
}

/// A batch norm wants more than one row, which one small image does not always give.
constexpr std::int64_t counted_samples = 2;

/// The floating-point operations of all products so far, of one sample.
double products(const CountingDevice& device) {
  double sum = 0;
  for (std::size_t k = 0; k < op_classes; ++k)
    if (const auto kind = static_cast<OpClass>(k); is_product(kind)) sum += device.operations(kind);
  return sum / counted_samples;
}

/// What to do in between: after all forwards, and after each forward or backward of a unit.
struct InBetween {
  std::function<void()> passes = [] {};
  std::function<void(std::size_t unit)> units = [](std::size_t) {};
};

/// Takes `samples` through forward and backward as the plan says.
void count_step(const RunPlan& plan, std::int64_t samples, CountingDevice& device,
                const InBetween& between) {
  Model model = make_model(plan.model, device);
  bind_all(model, device, parameter_dtype(plan.train));
  const bool full = plan.train.recompute == Recompute::full;
  Pass pass{.keep_attention = plan.train.recompute != Recompute::attention};
  std::vector<Tensor> inputs;  // that are recomputed from
  Tensor x =
      device.tensor(stacked(samples, model.input), MemoryKind::data, input_dtype(model.task));
  SideValues side(model.edges.size());
  std::vector<Saved> saved(model.units.size(), Saved(side));
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (full) inputs.push_back(x);
    pass.keep = !full || u + 1 == model.units.size();
    x = model.units[u]->forward(x, pass, saved[u]);
    between.units(u);
  }
  between.passes();
  Tensor gradient = std::exchange(x, {});  // losses overwrite the last output
  for (std::size_t u = model.units.size(); u-- > 0;) {
    if (full && u + 1 < model.units.size()) {
      pass.keep = pass.again = true;
      model.units[u]->forward(std::exchange(inputs[u], {}), pass, saved[u]);
    }
    gradient = model.units[u]->backward(gradient, saved[u]);
    between.units(u);
  }
}

}  // namespace

ModelWork work_of_sample(const RunPlan& plan, double tokens) {
  CountingDevice device;
  const auto forward = [&](OpClass kind) { return device.operations(kind) / counted_samples; };
  ModelWork work;
  const auto note_forward = [&] {
    work = {.linear = forward(OpClass::linear),
            .attention = forward(OpClass::attention),
            .convolution = forward(OpClass::convolution) + forward(OpClass::grouped_convolution),
            .executed = 0,
            .tokens = tokens};
  };
  count_step(plan, counted_samples, device, {.passes = note_forward});
  work.executed = products(device);
  return work;
}

std::int64_t activations_of_worker(const RunPlan& plan) {
  CountingDevice device;
  count_step(plan, plan.train.micro_batch, device, {});
  return device.ledger().at_peak()[MemoryKind::activation];
}

std::vector<double> operations_of_units(const RunPlan& plan) {
  CountingDevice device;
  std::vector<double> out;
  double before = 0;
  const auto note_unit = [&](std::size_t unit) {
    double now = 0;
    for (std::size_t k = 0; k < op_classes; ++k) now += device.operations(static_cast<OpClass>(k));
    if (out.size() <= unit) out.resize(unit + 1);
    out[unit] += now - before;
    before = now;
  };
  count_step(plan, plan.train.micro_batch, device, {.units = note_unit});
  return out;
}

}  // namespace ringside::runner
