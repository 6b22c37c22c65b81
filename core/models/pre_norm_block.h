// A transformer's block with layer norms before its branches.
#pragma once

#include "core/nn/attention.h"
#include "core/nn/dropout.h"

namespace ringside {

struct PreNormOptions {
  std::int64_t width = 0, heads = 1, hidden = 0;
  bool causal = true;
  Activation activation = Activation::gelu;  // of the MLP
  float epsilon = 1e-5f;                     // of the norms
  double dropout = 0;                        // of the output of both branches
  Init inner{};                              // of weights that read the normalised stream
  Init branch{};                             // of weights that project into the residual stream
};

/// x += attention(norm(x)); x += mlp(norm(x)), where the MLP has `hidden` hidden elements
/// (Radford et al. 2019; with attention in both directions Dosovitskiy et al. 2021). All linear
/// layers have biases, which start at 0. Maps [B, T, width] to the same shape.
class PreNormBlock : public Unit {
 public:
  PreNormBlock(std::string name, const PreNormOptions& options, Device& device);

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override;
  Tensor backward(const Tensor& grad_output, Saved& saved) override;

 private:
  LayerNorm norm1_;
  SelfAttention attention_;
  DropoutLayer attention_dropout_;
  LayerNorm norm2_;
  Linear expand_, contract_;
  DropoutLayer mlp_dropout_;
};

}  // namespace ringside
