// Operands of kernels at the shapes of two models: a GPT of width 384, 6 heads, context 256, batch
// 8 (2048 rows), and ResNet-18 for CIFAR, batch 32, with a 5x5 convolution as AlexNet has.
#pragma once

#include <memory>

#include "core/device/cpu/cpu_device.h"
#include "core/num/random.h"

namespace ringside::bench {

constexpr std::int64_t samples = 8, positions = 256, heads = 6, depth = 64, width = 384,
                       vocabulary = 256, layers = 6, rows = samples * positions;
constexpr std::int64_t images = 32;

/// A convolution of `in` channels and image x image positions to `out` channels, with kernels of
/// size x size.
struct ConvolutionShape {
  const char* name;
  std::int64_t in, out, image, size, stride;

  double operations() const {
    const auto to = static_cast<double>(image / stride);
    return 2.0 * images * to * to * static_cast<double>(in * out * size * size);
  }
};
constexpr ConvolutionShape convolutions[] = {
    {"3_to_64", 3, 64, 32, 3, 1},       {"64", 64, 64, 32, 3, 1},
    {"64_to_128", 64, 128, 32, 3, 2},   {"128", 128, 128, 16, 3, 1},
    {"128_to_256", 128, 256, 16, 3, 2}, {"256", 256, 256, 8, 3, 1},
    {"256_to_512", 256, 512, 8, 3, 2},  {"512", 512, 512, 4, 3, 1},
    {"around_128", 64, 128, 32, 1, 2},  {"5x5", 64, 192, 8, 5, 1}};

/// The operands of every kernel, in the shapes of the models.
class Operands {
 public:
  explicit Operands(int threads) : device_(make_cpu_device(threads)) {}

  Device& device() { return *device_; }
  const Kernels& kernels() const { return device_->kernels(); }

  /// Sets the dtype of parameters and activations that are made later.
  void set_dtype(DType dtype) { dtype_ = dtype; }

  Tensor random(Shape shape, float scale = 1) {
    const Tensor values = statistic(shape, scale);
    if (dtype_ == DType::f32) return values;
    const Tensor out = device_->tensor(shape, MemoryKind::activation, dtype_);
    kernels().cast({values, out});
    return out;
  }
  /// A random tensor of fp32, whatever set_dtype() said.
  Tensor statistic(Shape shape, float scale = 1) {
    Tensor out = device_->tensor(shape, MemoryKind::activation);
    const auto values = out.span<float>();
    // Repeating values does not change the speed. The period is prime, so that rows differ.
    constexpr std::size_t period = 4099;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] =
          i < period
              ? scale * static_cast<float>(random_uniform(1, Stream::synthetic_data, i) - 0.5)
              : values[i - period];
    return out;
  }
  Tensor integers(Shape shape, std::int64_t below) {
    Tensor out = device_->tensor(shape, MemoryKind::data, DType::i32);
    std::uint64_t i = 0;
    for (auto& value : out.span<std::int32_t>())
      value = static_cast<std::int32_t>(random_bits(1, Stream::synthetic_data, i++) %
                                        static_cast<std::uint64_t>(below));
    return out;
  }

  LinearForward linear(std::int64_t in, std::int64_t out, Activation activation) {
    LinearForward op{.x = random({rows, in}),
                     .weight = random({out, in}, 0.1f),
                     .bias = random({out}),
                     .activation = activation,
                     .y = random({rows, out})};
    if (activation != Activation::none) op.pre = random({rows, out});
    return op;
  }
  LinearBackward linear_backward(std::int64_t in, std::int64_t out, Activation activation) {
    LinearBackward op{.dy = random({rows, out}, 1e-3f),
                      .x = random({rows, in}),
                      .weight = random({out, in}, 0.1f),
                      .activation = activation,
                      .dx = random({rows, in}),
                      .dweight = random({out, in}),
                      .dbias = random({out})};
    if (activation != Activation::none) op.pre = random({rows, out}, 4);
    return op;
  }
  AttentionForward attention(bool causal) {
    return {.qkv = random({samples, positions, 3 * heads, depth}, 2),
            .causal = causal,
            .y = random({samples, positions, heads, depth}),
            .statistics = statistic({samples, heads, positions})};
  }
  AttentionBackward attention_backward(bool causal) {
    const auto forward = attention(causal);
    kernels().attention_forward(forward);
    return {.dy = random({samples, positions, heads, depth}),
            .qkv = forward.qkv,
            .causal = causal,
            .y = forward.y,
            .statistics = forward.statistics,
            .dqkv = random({samples, positions, 3 * heads, depth})};
  }
  LayerNormForward layer_norm() {
    const Tensor sum = random({rows, width});
    return {.x = random({rows, width}),
            .residual = random({rows, width}),
            .weight = random({width}),
            .bias = random({width}),
            .sum = sum,
            .y = random({rows, width}),
            .mean = statistic({rows}),
            .rstd = statistic({rows})};
  }
  LayerNormBackward layer_norm_backward() {
    const Tensor dx = random({rows, width});
    return {.dy = random({rows, width}),
            .x = random({rows, width}),
            .weight = random({width}),
            .mean = statistic({rows}),
            .rstd = statistic({rows}),
            .dresidual = dx,
            .dx = dx,
            .dweight = random({width}),
            .dbias = random({width})};
  }
  EmbeddingForward embedding() {
    return {.tokens = integers({samples, positions}, vocabulary),
            .token_table = random({vocabulary, width}),
            .position_table = random({positions, width}),
            .y = random({rows, width})};
  }
  EmbeddingBackward embedding_backward() {
    return {.tokens = integers({samples, positions}, vocabulary),
            .dy = random({rows, width}),
            .dtoken_table = random({vocabulary, width}),
            .dposition_table = random({positions, width})};
  }
  CrossEntropy cross_entropy(std::int64_t classes) {
    return {.logits = random({rows, classes}),
            .targets = integers({rows}, classes),
            .losses = statistic({rows}),
            .dlogits = random({rows, classes})};
  }
  AdamW adamw(std::int64_t count) {
    return {.parameters = random({count}),
            .gradients = random({count}),
            .first_moment = statistic({count}),
            .second_moment = statistic({count}, 0),
            .lr = 1e-4f,
            .beta1 = 0.9f,
            .beta2 = 0.95f,
            .epsilon = 1e-8f,
            .weight_decay = 0.1f,
            .step = 10};
  }
  Sgd sgd(std::int64_t count) {
    return {.parameters = random({count}),
            .gradients = random({count}),
            .velocity = statistic({count}),
            .lr = 1e-4f,
            .momentum = 0.9f,
            .step = 10};
  }

  ConvolutionForward convolution(const ConvolutionShape& s) {
    const std::int64_t to = s.image / s.stride;
    return {.x = random({images, s.image, s.image, s.in}),
            .weight = random({s.out, s.size, s.size, s.in}, 0.1f),
            .stride = s.stride,
            .padding = s.size / 2,
            .y = random({images, to, to, s.out})};
  }
  ConvolutionBackward convolution_backward(const ConvolutionShape& s) {
    const auto forward = convolution(s);
    return {.dy = random(forward.y.shape(), 1e-3f),
            .x = forward.x,
            .weight = forward.weight,
            .stride = s.stride,
            .padding = s.size / 2,
            .dx = random(forward.x.shape()),
            .dweight = random(forward.weight.shape())};
  }

 private:
  std::unique_ptr<Device> device_;
  DType dtype_ = DType::f32;
};

}  // namespace ringside::bench
