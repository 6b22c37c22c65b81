#include "core/models/pre_norm_block.h"

#include "core/nn/layer_tensors.h"

namespace ringside {

using layer::zeros;

PreNormBlock::PreNormBlock(std::string name, const PreNormOptions& o, Device& device)
    : Unit(std::move(name), device),
      norm1_(*this, "norm1", o.width, o.epsilon),
      attention_(*this, "attention",
                 {.width = o.width,
                  .heads = o.heads,
                  .key_heads = o.heads,
                  .causal = o.causal,
                  .qkv = o.inner,
                  .out = o.branch}),
      attention_dropout_(*this, "attention.dropout", o.dropout),
      norm2_(*this, "norm2", o.width, o.epsilon),
      expand_(*this, "mlp.in", o.width, o.hidden, o.inner, zeros, o.activation),
      contract_(*this, "mlp.out", o.hidden, o.width, o.branch, zeros),
      mlp_dropout_(*this, "mlp.dropout", o.dropout) {}

Tensor PreNormBlock::forward(const Tensor& input, const Pass& pass) {
  const std::int64_t samples = input.shape()[0];
  Tensor x = norm1_.forward(input, {}, pass);
  x = attention_.forward(x, samples, pass, [this] { return norm1_.again(); });
  const Tensor stream = attention_dropout_.forward(x, samples, pass);
  x = norm2_.forward(stream, input, pass);  // stream += input
  x = expand_.forward(x, pass);
  x = contract_.forward(x, pass);
  x = mlp_dropout_.forward(x, samples, pass);
  device().kernels().add({.in = stream, .out = x});
  return x.reshaped(input.shape());
}

Tensor PreNormBlock::backward(const Tensor& grad_output) {
  // From here on `grad_output` holds the gradient of the stream; the norms add to it in place.
  Tensor d = contract_.backward(mlp_dropout_.backward(grad_output));
  d = expand_.backward(d);
  norm2_.backward(d, grad_output);
  d = attention_.backward(attention_dropout_.backward(grad_output));
  norm1_.backward(d, grad_output);
  return grad_output;
}

}  // namespace ringside
