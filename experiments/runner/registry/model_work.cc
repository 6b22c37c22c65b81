#include "experiments/runner/registry/model_work.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/loader.h"
#include "core/device/cost.h"
#include "core/device/device.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// A device that counts instead of computing: buffers have no memory, operations add up their costs
/// (core/device/cost.h), and no time passes. read() gives zeros. For one thread.
class CountingDevice final : public Device, private Clock {
 public:
  CountingDevice();

  /// Floating-point operations of one class since the device was made.
  double operations(OpClass kind) const { return operations_[static_cast<std::size_t>(kind)]; }

  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override;
  std::shared_ptr<Buffer> adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                std::function<void()> release) override;
  bool has_values() const override { return false; }
  const Kernels& kernels() const override { return kernels_; }
  Mark mark() override { return {}; }
  double time(const Mark& mark) override { return mark.value; }
  void synchronize() override {}
  void write(const Tensor&, std::span<const std::byte>) override {}
  void read(const Tensor& from, std::span<std::byte> to) override;
  const Clock& clock() const override { return *this; }

 private:
  double now() const override { return 0; }

  std::array<double, op_classes> operations_{};
  Kernels kernels_;
};

CountingDevice::CountingDevice() {
  for_each_slot(kernels_, [this]<class Op>(std::string_view, Kernel<Op>& slot) {
    slot = [this](const Op& op) {
      const OpCost of_op = cost(op);
      operations_[static_cast<std::size_t>(of_op.kind)] += of_op.operations;
    };
  });
}

std::shared_ptr<Buffer> CountingDevice::allocate(std::size_t bytes, MemoryKind kind) {
  return adopt(nullptr, bytes, kind, {});
}

std::shared_ptr<Buffer> CountingDevice::adopt(std::byte* data, std::size_t bytes, MemoryKind kind,
                                              std::function<void()> release) {
  ledger().add(kind, bytes);
  return std::make_shared<Buffer>(data, bytes, kind, SymmetricAddress{},
                                  [this, bytes, kind, release = std::move(release)] {
                                    if (release) release();
                                    ledger().remove(kind, bytes);
                                  });
}

void CountingDevice::read(const Tensor&, std::span<std::byte> to) {
  std::fill(to.begin(), to.end(), std::byte{0});
}

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

/// Takes `samples` through forward and backward as the plan says, and calls `between` in between.
void count_step(const RunPlan& plan, std::int64_t samples, CountingDevice& device,
                const std::function<void()>& between) {
  Model model = make_model(plan.model, device);
  bind_all(model, device, parameter_dtype(plan.train));
  const bool full = plan.train.recompute == Recompute::full;
  Pass pass{.keep_attention = plan.train.recompute != Recompute::attention};
  std::vector<Tensor> inputs;  // that are recomputed from
  Tensor x =
      device.tensor(stacked(samples, model.input), MemoryKind::data, input_dtype(model.task));
  for (const auto& unit : model.units) {
    if (full) inputs.push_back(x);
    pass.keep = !full || unit == model.units.back();
    x = unit->forward(x, pass);
  }
  between();
  Tensor gradient = std::exchange(x, {});  // losses overwrite the last output
  for (std::size_t u = model.units.size(); u-- > 0;) {
    if (full && u + 1 < model.units.size()) {
      pass.keep = pass.again = true;
      model.units[u]->forward(std::exchange(inputs[u], {}), pass);
    }
    gradient = model.units[u]->backward(gradient);
  }
}

}  // namespace

ModelWork work_of_sample(const RunPlan& plan, double tokens) {
  CountingDevice device;
  const auto forward = [&](OpClass kind) { return device.operations(kind) / counted_samples; };
  ModelWork work;
  count_step(plan, counted_samples, device, [&] {
    work = {.linear = forward(OpClass::linear),
            .attention = forward(OpClass::attention),
            .convolution = forward(OpClass::convolution) + forward(OpClass::grouped_convolution),
            .executed = 0,
            .tokens = tokens};
  });
  work.executed = products(device);
  return work;
}

std::int64_t activations_of_worker(const RunPlan& plan) {
  CountingDevice device;
  count_step(plan, plan.train.micro_batch, device, [] {});
  return device.ledger().at_peak()[MemoryKind::activation];
}

}  // namespace ringside::runner
