#include "core/models/llama.h"

#include <cmath>

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/model_defaults.h"
#include "core/nn/attention.h"
#include "core/nn/decoder_layers.h"

namespace ringside {
namespace {

constexpr float llama_deviation = 0.02f;
constexpr Init llama_normal{Init::Kind::normal, llama_deviation};

/// x += attention(norm(x)); x += mlp(norm(x)).
class LlamaBlock final : public Unit {
 public:
  /// `c` is completed.
  LlamaBlock(std::string name, const ModelConfig& c, Device& device)
      : Unit(std::move(name), device),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        attention_(*this, "attention",
                   {.width = c.width,
                    .heads = c.heads,
                    .key_heads = c.kv_heads,
                    .bias = false,
                    .rotary = RotaryPositions{c.rope_base, c.rope_factor},
                    .qkv = llama_normal,
                    .out = branch(c)}),
        norm2_(*this, "norm2", c.width, epsilon_of(c)),
        expand_(*this, "mlp.in", c.width, 2 * c.hidden, llama_normal, std::nullopt),
        gate_(*this, c.hidden),
        contract_(*this, "mlp.out", c.hidden, c.width, branch(c), std::nullopt) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    Tensor x = norm1_.forward(input, {}, pass);
    const Tensor stream =
        attention_.forward(x, input.shape()[0], pass, [this] { return norm1_.again(); });
    x = norm2_.forward(stream, input, pass);  // stream += input
    x = expand_.forward(x, pass);
    x = gate_.forward(x, pass);
    x = contract_.forward(x, pass);
    device().kernels().add({.in = stream, .out = x});
    return x.reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output) override {
    // From here on `grad_output` holds the gradient of the stream; the norms add to it in place.
    Tensor d = contract_.backward(grad_output);
    d = gate_.backward(d);
    d = expand_.backward(d);
    norm2_.backward(d, grad_output);
    d = attention_.backward(grad_output);
    norm1_.backward(d, grad_output);
    return grad_output;
  }

 private:
  static Init branch(const ModelConfig& c) {
    const double branches = 2.0 * static_cast<double>(c.layers);
    return {Init::Kind::normal, static_cast<float>(llama_deviation / std::sqrt(branches))};
  }

  RmsNorm norm1_;
  SelfAttention attention_;
  RmsNorm norm2_;
  Linear expand_;
  SwiGlu gate_;
  Linear contract_;
};

}  // namespace

void check_llama(const ModelConfig& c) {
  check_sizes(c, {});
  // What a llama does not use may have any value that is not too large.
  ModelConfig used = c;
  used.dropout = 0;
  used.positions = 0;
  check_transformer(used);
  if (c.kv_heads < 0 || c.heads % completed(c).kv_heads != 0)
    throw Error("model.kv_heads = {} does not divide model.heads = {}; choose a divisor, or 0",
                c.kv_heads, c.heads);
  if (c.width / c.heads % 2 != 0)
    throw Error(
        "model.width / model.heads = {} is odd, but rotary positions turn pairs of elements; "
        "choose an even width for each head",
        c.width / c.heads);
  if (c.width / c.heads > 512)
    throw Error("model.width / model.heads = {} is too large; it has to be 512 or less",
                c.width / c.heads);
  if (c.hidden < 0)
    throw Error("model.hidden = {} is too small; it has to be 1 or more, or 0", c.hidden);
  check_activation(c);
  epsilon_of(c);  // refuses what is out of range
  if (!(c.rope_base >= 1) || !std::isfinite(c.rope_base))
    throw Error("model.rope_base = {} is out of range; it has to be 1 or more", c.rope_base);
  if (!(c.rope_factor >= 1) || !std::isfinite(c.rope_factor))
    throw Error("model.rope_factor = {} is out of range; it has to be 1 or more", c.rope_factor);
}

std::unique_ptr<Unit> make_llama_block(std::string name, const ModelConfig& config,
                                       Device& device) {
  return std::make_unique<LlamaBlock>(std::move(name), completed(config), device);
}

Model make_llama(const ModelConfig& config, Device& device) {
  check_llama(config);
  auto embedding = std::make_unique<DecoderEmbedding>(config, /*positions=*/0, /*dropout=*/0,
                                                      llama_normal, device);
  return make_decoder<LlamaBlock, RmsNorm>(completed(config), std::move(embedding), llama_normal,
                                           device);
}

}  // namespace ringside
