// The operations and the memory that training steps of whole models take.
#include <gtest/gtest.h>

#include <map>

#include "core/data/loader.h"
#include "core/device/cost.h"
#include "core/device/cpu/cpu_device.h"
#include "core/device/sim/sim_device.h"
#include "core/models/presets.h"
#include "tests/models/cases.h"
#include "tests/support/manual_device.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

/// Counts the operations of every class. Its buffers have no memory.
class CountingDevice final : public testing::ManualDevice {
 public:
  CountingDevice() {
    for_each_slot(kernels_, [this]<class Op>(std::string_view, Kernel<Op>& slot) {
      slot = [this](const Op& op) { operations[cost(op).kind] += cost(op).operations; };
    });
  }
  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryKind kind) override {
    return adopt(nullptr, bytes, kind, [] {});
  }
  void write(const Tensor&, std::span<const std::byte>) override {}
  bool has_values() const override { return false; }
  const Kernels& kernels() const override { return kernels_; }

  std::map<OpClass, double> operations{};

 private:
  Kernels kernels_;
};

/// A whole model, bound to its own tensors of parameters and gradients.
struct Ranges {
  Ranges(Device& device, const ModelConfig& config)
      : model(make_model(config, device)),
        parameters(device.tensor({model.parameter_count()}, MemoryKind::parameter)),
        gradients(device.tensor({model.parameter_count()}, MemoryKind::gradient)) {
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      const std::int64_t first = model.first_parameter(u), count = model.units[u]->layout().count();
      model.units[u]->bind(parameters.range(first, count), gradients.range(first, count));
    }
  }
  Model model;
  Tensor parameters, gradients;
};

/// Does two training steps with AdamW.
void train(Device& device, const ModelConfig& config, std::int64_t samples,
           bool keep_attention = true) {
  const Ranges ranges(device, config);
  const Model& model = ranges.model;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u), count = model.units[u]->layout().count();
    initialise(*model.units[u], first, 1, 0, ranges.parameters.range(first, count));
  }
  AdamW update{.parameters = ranges.parameters, .gradients = ranges.gradients};
  update.first_moment = device.tensor({model.parameter_count()}, MemoryKind::optimizer);
  update.second_moment = device.tensor({model.parameter_count()}, MemoryKind::optimizer);
  const std::int64_t tokens = samples * config.context;
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(tokens));
  for (std::int64_t step = 0; step < 2; ++step) {
    Tensor x = device.tensor({samples, config.context}, MemoryKind::data, DType::i32);
    const Tensor targets = device.tensor({tokens}, MemoryKind::data, DType::i32);
    for (const Tensor& t : {x, targets}) device.write(t, std::as_bytes(std::span(zeros)));
    testing::MicroBatch own(model);
    x = own.forward(model, x, Pass{.step = step, .keep_attention = keep_attention});
    {
      const Tensor losses = device.tensor({tokens}, MemoryKind::workspace);
      device.kernels().cross_entropy(
          {.logits = x, .targets = targets, .losses = losses, .dlogits = x});
    }
    own.backward(model, std::exchange(x, {}));
    update.step = step + 1;
    device.kernels().adamw(update);
  }
}

/// The multiply-add operations of linear layers and convolutions in the forward pass of one sample,
/// in units of 10^9.
double forward_gmac(const ModelConfig& config) {
  CountingDevice device;
  const Ranges ranges(device, config);
  const Tensor x = device.tensor(stacked(1, ranges.model.input), MemoryKind::data,
                                 input_dtype(ranges.model.task));
  testing::MicroBatch(ranges.model).forward(ranges.model, x, evaluation);
  return (device.operations[OpClass::convolution] + device.operations[OpClass::linear]) / 2e9;
}

/// The expected figures are those of the papers and of torchvision.
TEST(StepCost, OfImagesIsThatOfTheLiterature) {
  const std::map<std::string_view, double> gmac = {
      {"resnet-18", 1.82}, {"resnet-50", 4.1}, {"resnet-101", 7.8},   {"resnet-152", 11.6},
      {"vgg-16", 15.5},    {"alexnet", 0.714}, {"inception-v3", 5.71}};
  for (const auto& [name, expected] : gmac)
    EXPECT_NEAR(forward_gmac(find_preset(name).config), expected, 0.015 * expected) << name;
}

/// Every weight of the blocks is multiplied once for each token. The head that predicts hidden
/// tokens is computed for each hidden token, and the other head once for each sample.
TEST(StepCost, OfBertIsThatOfItsWeights) {
  const ModelConfig config = find_preset("bert-large").config;
  const auto layers = static_cast<double>(config.layers), width = static_cast<double>(config.width);
  const double blocks = static_cast<double>(config.context) * layers * 12 * width * width;
  const double of_masked = width * (width + static_cast<double>(config.vocabulary));
  const double heads = static_cast<double>(config.masked) * of_masked + width * (width + 2);
  EXPECT_NEAR(forward_gmac(config), (blocks + heads) / 1e9, 1e-9);
}

/// Every weight of a vision block is multiplied once for each patch, every weight of the decoder
/// once for each visual token and each token of the text, and the head's once for each of the
/// latter.
TEST(StepCost, OfSmolVlmIsThatOfItsWeights) {
  const ModelConfig config = find_preset("smolvlm-2b").config;
  const double patches = 27 * 27, visual = 9 * 9, text = static_cast<double>(config.context);
  const double seen = patches * (27.0 * (4 * 1152 * 1152 + 2 * 1152 * 4304) + 1152 * 3 * 14 * 14);
  const double connected = visual * 9 * 1152 * 2048;
  const double read = (visual + text) * 24 * (4.0 * 2048 * 2048 + 3.0 * 2048 * 8192);
  EXPECT_NEAR(forward_gmac(config), (seen + connected + read + text * 2048 * 49155) / 1e9, 1e-6);
}

/// The decoder's keys and values of the encoder's output are those of the source's tokens.
TEST(StepCost, OfT5IsThatOfItsWeights) {
  const ModelConfig config = find_preset("t5-3b").config;
  const auto of = [](std::int64_t value) { return static_cast<double>(value); };
  const double matrix = of(config.width) * of(config.heads * config.own<T5Options>().head_width);
  const double mlp = 2 * of(config.width) * of(config.hidden);
  const double source = of(config.context), target = of(config.target_context);
  const double blocks =
      of(config.layers) * (source * (4 * matrix + mlp + 2 * matrix) + target * (6 * matrix + mlp));
  const double logits = target * of(config.width) * of(config.vocabulary);
  EXPECT_NEAR(forward_gmac(config), (blocks + logits) / 1e9, 1e-9);
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
  // All other operations are few: a first estimate for a larger model could leave them out.
  const double others = device.operations[OpClass::normalisation] +
                        device.operations[OpClass::elementwise] + device.operations[OpClass::loss];
  EXPECT_GT(others, 0);
  EXPECT_LT(others, 0.05 * device.operations[OpClass::linear]);
}

/// The operations of attention in a GPT's block, from the block's input to the output layer.
void attend(Device& device, const ModelConfig& c, std::int64_t samples) {
  const std::int64_t rows = samples * c.context, head = c.width / c.heads;
  const auto tensor = [&](Shape shape) { return device.tensor(shape, MemoryKind::activation); };
  const Tensor x = tensor({rows, c.width}), qkv = tensor({rows, 3 * c.width});
  device.kernels().layer_norm_forward({.x = x,
                                       .weight = tensor({c.width}),
                                       .bias = tensor({c.width}),
                                       .y = x,
                                       .mean = tensor({rows}),
                                       .rstd = tensor({rows})});
  device.kernels().linear_forward(
      {.x = x, .weight = tensor({3 * c.width, c.width}), .bias = tensor({3 * c.width}), .y = qkv});
  device.kernels().attention_forward({.qkv = qkv.reshaped({samples, c.context, 3 * c.heads, head}),
                                      .y = tensor({samples, c.context, c.heads, head}),
                                      .statistics = tensor({samples, c.heads, c.context})});
}

TEST(StepCost, OfAttentionThatIsMadeAgainIsThatOfItsForwardOnceMore) {
  const ModelConfig config{.layers = 3, .heads = 4, .width = 32, .context = 24, .vocabulary = 50};
  constexpr std::int64_t samples = 2, times = 2 * 3;  // steps, layers
  CountingDevice kept, again, once;
  train(kept, config, samples);
  train(again, config, samples, /*keep_attention=*/false);
  attend(once, config, samples);
  for (const auto& [kind, operations] : again.operations)
    EXPECT_EQ(operations, kept.operations[kind] + times * once.operations[kind]);
  EXPECT_EQ(once.operations[OpClass::linear], 2.0 * samples * 24 * 32 * 3 * 32);

  const auto simulated_s = [&](const auto& work) {
    const auto device = sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr);
    const double start = device->clock().now();
    work(*device);
    return device->clock().now() - start;
  };
  const double kept_s = simulated_s([&](Device& d) { train(d, config, samples); });
  const double again_s = simulated_s([&](Device& d) { train(d, config, samples, false); });
  const double once_s = simulated_s([&](Device& d) { attend(d, config, samples); });
  EXPECT_GT(once_s, 0);
  EXPECT_NEAR(again_s - kept_s, times * once_s, 1e-9 * kept_s);
}

/// The simulated device does not know the workspace that kernels of the CPU allocate while they
/// run. For attention over many positions this workspace is a noticeable part of the peak; where
/// attention is made again, the peak of all three lies in its backward.
TEST(StepCost, PeakOfMemoryIsThatOfTheCpu) {
  struct {
    ModelConfig model;
    std::int64_t samples;
    double taken;  // the largest allowed share of such workspace in the peak
    double taken_again;
  } cases[] = {
      {{.layers = 4, .heads = 4, .width = 128, .context = 128, .vocabulary = 256}, 1, 0.005, 0.015},
      {{.layers = 2, .heads = 2, .width = 64, .context = 512, .vocabulary = 256}, 1, 0.06, 0.15},
      {{.layers = 1, .heads = 2, .width = 32, .context = 64, .vocabulary = 64}, 4, 0.005, 0.12},
  };
  for (const auto& c : cases) {
    const auto peak = [&](Device& device, bool keep_attention) {
      train(device, c.model, c.samples, keep_attention);
      EXPECT_EQ(device.ledger().current().total(), 0);
      return static_cast<double>(device.ledger().at_peak().total());
    };
    const auto peak_of_cpu = [&](bool keep_attention) {
      return peak(*make_cpu_device(2), keep_attention);
    };
    const auto simulated_peak = [&](bool keep_attention) {
      return peak(*sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr),
                  keep_attention);
    };
    const double kept = peak_of_cpu(true), again = peak_of_cpu(false);
    EXPECT_NEAR(simulated_peak(true), kept, c.taken * kept);
    EXPECT_NEAR(simulated_peak(false), again, c.taken_again * again);
    EXPECT_LT(again, 0.95 * kept);
  }
}

}  // namespace
}  // namespace ringside
