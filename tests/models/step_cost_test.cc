// What one training step of a whole model costs and holds, without computing it.
#include <gtest/gtest.h>

#include <map>

#include "core/device/cost.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/sim_device.h"
#include "core/models/gpt.h"
#include "core/optim/optimizer.h"
#include "tests/support/manual_device.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

/// Counts the operations of every class.
class CountingDevice final : public testing::ManualDevice {
 public:
  CountingDevice() {
    for_each_slot(kernels_, [this]<class Op>(std::string_view, Kernel<Op>& slot) {
      slot = [this](const Op& op) { operations[cost(op).kind] += cost(op).operations; };
    });
  }
  bool has_values() const override { return false; }
  const Kernels& kernels() const override { return kernels_; }

  std::map<OpClass, double> operations{};

 private:
  Kernels kernels_;
};

/// A whole model in ranges of its own, with AdamW: two training steps.
void train(Device& device, const ModelConfig& config, std::int64_t samples) {
  Model model = make_gpt(config, device);
  const Tensor parameters = device.tensor({model.parameter_count()}, MemoryKind::parameter);
  const Tensor gradients = device.tensor({model.parameter_count()}, MemoryKind::gradient);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u), count = model.units[u]->layout().count();
    initialise(*model.units[u], first, 1, 0, parameters.range(first, count));
    model.units[u]->bind(parameters.range(first, count), gradients.range(first, count));
  }
  const auto optimizer = make_optimizer({}, 2, device, parameters);
  const std::int64_t tokens = samples * config.context;
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(tokens));
  for (std::int64_t step = 0; step < 2; ++step) {
    Tensor x = device.tensor({samples, config.context}, MemoryKind::data, DType::i32);
    const Tensor targets = device.tensor({tokens}, MemoryKind::data, DType::i32);
    for (const Tensor& t : {x, targets}) device.write(t, std::as_bytes(std::span(zeros)));
    for (const auto& unit : model.units) x = unit->forward(x, Pass{.step = step});
    {
      const Tensor losses = device.tensor({tokens}, MemoryKind::workspace);
      device.kernels().cross_entropy(
          {.logits = x, .targets = targets, .losses = losses, .dlogits = x});
    }
    for (std::size_t u = model.units.size(); u-- > 0;) x = model.units[u]->backward(x);
    optimizer->update(0, parameters, gradients, step);
  }
}

TEST(StepCost, OfAGptIsSixTimesItsWeightsATokenAndItsAttention) {
  const ModelConfig config{.layers = 3, .heads = 4, .width = 32, .context = 24, .vocabulary = 50};
  constexpr std::int64_t samples = 2;
  CountingDevice device;
  train(device, config, samples);
  const auto steps = 2.0;
  const auto layers = static_cast<double>(config.layers), width = static_cast<double>(config.width);
  const auto positions = static_cast<double>(config.context);
  const double tokens = samples * positions;
  const double weights =
      12 * layers * width * width + width * static_cast<double>(config.vocabulary);
  EXPECT_EQ(device.operations[OpClass::linear], steps * 6 * weights * tokens);
  EXPECT_EQ(device.operations[OpClass::attention],
            steps * 14 * layers * samples * width * positions * (positions + 1) / 2);
  // The rest is what one would leave out of a first estimate of a larger model.
  const double others = device.operations[OpClass::normalisation] +
                        device.operations[OpClass::elementwise] + device.operations[OpClass::loss];
  EXPECT_GT(others, 0);
  EXPECT_LT(others, 0.05 * device.operations[OpClass::linear]);
}

/// The simulated device does not know what kernels of the CPU take for themselves while they run.
TEST(StepCost, PeakOfMemoryIsThatOfTheCpu) {
  struct {
    ModelConfig model;
    std::int64_t samples;
  } cases[] = {
      {{.layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256}, 1},
      {{.layers = 2, .heads = 2, .width = 64, .context = 512, .vocabulary = 256}, 1},
      {{.layers = 1, .heads = 2, .width = 32, .context = 64, .vocabulary = 64}, 4},
  };
  for (const auto& c : cases) {
    const auto cpu = make_cpu_device(2);
    const auto simulated =
        sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr);
    train(*cpu, c.model, c.samples);
    train(*simulated, c.model, c.samples);
    const auto real = static_cast<double>(cpu->ledger().at_peak().total());
    EXPECT_NEAR(static_cast<double>(simulated->ledger().at_peak().total()), real, 0.005 * real);
    EXPECT_EQ(simulated->ledger().current().total(), 0);
  }
}

}  // namespace
}  // namespace ringside
