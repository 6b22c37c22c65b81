#include "core/models/gpt.h"

#include <cmath>

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/nn/attention.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

using layer::zeros;
constexpr float deviation = 0.02f;
constexpr Init normal{Init::Kind::normal, deviation};

/// x += attention(norm(x)); x += mlp(norm(x)). Initial weights that project into the residual
/// stream are divided by the square root of the number of such projections (Radford et al. 2019).
class Block final : public Unit {
 public:
  Block(std::string name, const ModelConfig& c, Device& device)
      : Unit(std::move(name), device),
        norm1_(*this, "norm1", c.width),
        attention_(*this, "attention",
                   {.width = c.width,
                    .heads = c.heads,
                    .key_heads = c.heads,
                    .qkv = normal,
                    .out = branch(c)}),
        attention_dropout_(*this, "attention.dropout", c.dropout),
        norm2_(*this, "norm2", c.width),
        expand_(*this, "mlp.in", c.width, 4 * c.width, normal, zeros, Activation::gelu),
        contract_(*this, "mlp.out", 4 * c.width, c.width, branch(c), zeros),
        mlp_dropout_(*this, "mlp.dropout", c.dropout) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const std::int64_t samples = input.shape()[0];
    Tensor x = norm1_.forward(input, {}, pass);
    x = attention_.forward(x, samples, pass);
    const Tensor stream = attention_dropout_.forward(x, samples, pass);
    x = norm2_.forward(stream, input, pass);  // stream += input
    x = expand_.forward(x, pass);
    x = contract_.forward(x, pass);
    x = mlp_dropout_.forward(x, samples, pass);
    device().kernels().add({.in = stream, .out = x});
    return x.reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output) override {
    // From here on `grad_output` holds the gradient of the stream; the norms add to it in place.
    Tensor d = contract_.backward(mlp_dropout_.backward(grad_output));
    d = expand_.backward(d);
    norm2_.backward(d, grad_output);
    d = attention_.backward(attention_dropout_.backward(grad_output));
    norm1_.backward(d, grad_output);
    return grad_output;
  }

 private:
  static Init branch(const ModelConfig& c) {
    const double branches = 2.0 * static_cast<double>(c.layers);
    return {Init::Kind::normal, static_cast<float>(deviation / std::sqrt(branches))};
  }

  LayerNorm norm1_;
  SelfAttention attention_;
  DropoutLayer attention_dropout_;
  LayerNorm norm2_;
  Linear expand_, contract_;
  DropoutLayer mlp_dropout_;
};

}  // namespace

Model make_gpt(const ModelConfig& config, Device& device) {
  check_transformer(config);
  auto embedding = std::make_unique<DecoderEmbedding>(config, rows_of_positions(config),
                                                      config.dropout, normal, device);
  return make_decoder<Block, LayerNorm>(config, std::move(embedding), normal, device);
}

}  // namespace ringside
