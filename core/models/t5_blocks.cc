#include "core/models/t5_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "core/models/model_defaults.h"
#include "core/models/t5.h"
#include "core/nn/cross_attention.h"
#include "core/nn/decoder_layers.h"
#include "core/nn/dropout.h"
#include "core/nn/layers.h"
#include "core/nn/relative_bias.h"

namespace ringside::t5 {
namespace {

/// Normal numbers with deviation (a * b)^-0.5, as in Hugging Face's program.
Init deviating(std::int64_t a, std::int64_t b = 1) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  return {Init::Kind::normal, static_cast<float>(1 / std::sqrt(product))};
}

CrossAttentionOptions attention_of(const ModelConfig& c, bool causal,
                                   std::optional<std::size_t> bias) {
  const std::int64_t head_width = c.own<T5Options>().head_width;
  return {.width = c.width,
          .heads = c.heads,
          .head_width = head_width,
          .causal = causal,
          .bias = bias,
          .q = deviating(c.width, head_width),
          .kv = deviating(c.width),
          .out = deviating(c.heads, head_width)};
}

// Each branch returns what it adds to the stream. In backward it returns the gradient of its input.

/// Attention within a sequence. The branch of the first block has the biases of its stack.
class SelfBranch {
 public:
  SelfBranch(Unit& unit, const ModelConfig& c, bool is_first, std::int64_t positions, bool causal,
             std::size_t bias)
      : unit_(unit),
        bias_(bias),
        attention_(unit, "attention", attention_of(c, causal, bias)),
        dropout_(unit, "attention.dropout", c.dropout) {
    if (is_first)
      table_.emplace(unit, "attention.bias",
                     RelativeBiasOptions{.positions = positions,
                                         .heads = c.heads,
                                         .buckets = c.own<T5Options>().relative_buckets,
                                         .furthest = c.own<T5Options>().relative_distance,
                                         .both_sides = !causal},
                     deviating(c.width));
  }

  /// `remake` makes x again.
  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved,
                 Remake remake) {
    // A repeated forward reads values that are still there.
    if (table_ && !pass.again) saved.side()[bias_].value = table_->forward();
    const Tensor y = attention_.forward(x, {}, samples, pass, saved, std::move(remake));
    return dropout_.forward(y, samples, pass, saved);
  }

  Tensor backward(const Tensor& dy, Saved& saved) {
    const auto [d, memory] = attention_.backward(dropout_.backward(dy, saved), saved);
    unit_.device().kernels().add({.in = memory, .out = d});
    if (table_) {
      SideValues::Value& bias = saved.side()[bias_];
      table_->backward(std::exchange(bias.gradient, {}), saved);
      bias.value = {};
    }
    return d;
  }

 private:
  Unit& unit_;
  std::size_t bias_;
  CrossAttention attention_;
  DropoutLayer dropout_;
  std::optional<RelativeBias> table_;
};

/// Attention to the encoder's output.
class CrossBranch {
 public:
  CrossBranch(Unit& unit, const ModelConfig& c)
      : unit_(unit),
        attention_(unit, "cross", attention_of(c, false, std::nullopt)),
        dropout_(unit, "cross.dropout", c.dropout) {}

  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved) {
    const Tensor& memory = saved.side()[encoded].value;
    return dropout_.forward(attention_.forward(x, memory, samples, pass, saved), samples, pass,
                            saved);
  }

  Tensor backward(const Tensor& dy, Saved& saved) {
    auto [d, memory] = attention_.backward(dropout_.backward(dy, saved), saved);
    if (Tensor& sum = saved.side()[encoded].gradient)
      unit_.device().kernels().add({.in = memory, .out = sum});
    else
      sum = std::move(memory);
    return d;
  }

 private:
  Unit& unit_;
  CrossAttention attention_;
  DropoutLayer dropout_;
};

class Mlp {
 public:
  Mlp(Unit& unit, const ModelConfig& c)
      : expand_(unit, "mlp.in", c.width, c.hidden, deviating(c.width), std::nullopt,
                activation_of(c)),
        hidden_dropout_(unit, "mlp.hidden.dropout", c.dropout),
        contract_(unit, "mlp.out", c.hidden, c.width, deviating(c.hidden), std::nullopt),
        dropout_(unit, "mlp.dropout", c.dropout) {}

  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass, Saved& saved) {
    Tensor y = expand_.forward(x, pass, saved);
    y = contract_.forward(hidden_dropout_.forward(y, samples, pass, saved), pass, saved);
    return dropout_.forward(y, samples, pass, saved);
  }
  Tensor backward(const Tensor& dy, Saved& saved) {
    const Tensor d = contract_.backward(dropout_.backward(dy, saved), saved);
    return expand_.backward(hidden_dropout_.backward(d, saved), saved);
  }

 private:
  Linear expand_;
  DropoutLayer hidden_dropout_;
  Linear contract_;
  DropoutLayer dropout_;
};

class EncoderBlock final : public Unit {
 public:
  EncoderBlock(std::int64_t index, const ModelConfig& c, Device& device)
      : Unit(fmt::format("encoder.{}", index), device),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        attention_(*this, c, index == 0, c.context, /*causal=*/false, encoder_bias),
        norm2_(*this, "norm2", c.width, epsilon_of(c)),
        mlp_(*this, c) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0];
    Tensor x = norm1_.forward(input, {}, pass, saved);
    const Tensor stream = attention_.forward(x, samples, pass, saved,
                                             [this](Saved& own) { return norm1_.again(own); });
    x = norm2_.forward(stream, input, pass, saved);  // stream += input
    x = mlp_.forward(x, samples, pass, saved);
    device().kernels().add({.in = stream, .out = x});
    return x.reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    // The gradient of the stream: the norms add to it, in place unless work was put off.
    Tensor stream = norm2_.backward(mlp_.backward(grad_output, saved), grad_output, saved);
    stream = norm1_.backward(attention_.backward(stream, saved), stream, saved);
    return stream.reshaped(grad_output.shape());
  }

 private:
  RmsNorm norm1_;
  SelfBranch attention_;
  RmsNorm norm2_;
  Mlp mlp_;
};

class DecoderBlock final : public Unit {
 public:
  DecoderBlock(std::int64_t index, const ModelConfig& c, Device& device)
      : Unit(fmt::format("decoder.{}", index), device),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        attention_(*this, c, index == 0, c.target_context, /*causal=*/true, decoder_bias),
        norm2_(*this, "norm2", c.width, epsilon_of(c)),
        cross_(*this, c),
        norm3_(*this, "norm3", c.width, epsilon_of(c)),
        mlp_(*this, c) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0];
    Tensor x = norm1_.forward(input, {}, pass, saved);
    Tensor stream = attention_.forward(x, samples, pass, saved,
                                       [this](Saved& own) { return norm1_.again(own); });
    x = norm2_.forward(stream, input, pass, saved);  // stream += input
    const Tensor next = cross_.forward(x, samples, pass, saved);
    x = norm3_.forward(next, stream, pass, saved);  // next += stream
    stream = {};
    x = mlp_.forward(x, samples, pass, saved);
    device().kernels().add({.in = next, .out = x});
    return x.reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    // As in the encoder.
    Tensor stream = norm3_.backward(mlp_.backward(grad_output, saved), grad_output, saved);
    stream = norm2_.backward(cross_.backward(stream, saved), stream, saved);
    stream = norm1_.backward(attention_.backward(stream, saved), stream, saved);
    return stream.reshaped(grad_output.shape());
  }

 private:
  RmsNorm norm1_;
  SelfBranch attention_;
  RmsNorm norm2_;
  CrossBranch cross_;
  RmsNorm norm3_;
  Mlp mlp_;
};

}  // namespace

std::unique_ptr<Unit> make_encoder_block(std::int64_t index, const ModelConfig& config,
                                         Device& device) {
  return std::make_unique<EncoderBlock>(index, config, device);
}

std::unique_ptr<Unit> make_decoder_block(std::int64_t index, const ModelConfig& config,
                                         Device& device) {
  return std::make_unique<DecoderBlock>(index, config, device);
}

}  // namespace ringside::t5
