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

Tensor PreNormBlock::forward(const Tensor& input, const Pass& pass, Saved& saved) {
  const std::int64_t samples = input.shape()[0];
  Tensor x = norm1_.forward(input, {}, pass, saved);
  x = attention_.forward(x, samples, pass, saved, [this](Saved& own) { return norm1_.again(own); });
  const Tensor stream = attention_dropout_.forward(x, samples, pass, saved);
  x = norm2_.forward(stream, input, pass, saved);  // stream += input
  x = expand_.forward(x, pass, saved);
  x = contract_.forward(x, pass, saved);
  x = mlp_dropout_.forward(x, samples, pass, saved);
  device().kernels().add({.in = stream, .out = x});
  return x.reshaped(input.shape());
}

Tensor PreNormBlock::backward(const Tensor& grad_output, Saved& saved) {
  Tensor d = contract_.backward(mlp_dropout_.backward(grad_output, saved), saved);
  d = expand_.backward(d, saved);
  // The gradient of the stream: the norms add to it, in place unless work was put off.
  Tensor stream = norm2_.backward(d, grad_output, saved);
  d = attention_.backward(attention_dropout_.backward(stream, saved), saved);
  stream = norm1_.backward(d, stream, saved);
  return stream.reshaped(grad_output.shape());
}

}  // namespace ringside
