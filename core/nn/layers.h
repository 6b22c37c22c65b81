// Layers: what units are made of.
//
// A layer declares its parameters in its unit's layout, in its constructor, and looks their values
// up in the unit when it computes. forward() keeps what backward() needs if its pass says so;
// backward() overwrites the gradients of the layer's parameters and frees what was kept. A tensor
// of rows may have any shape: M is its count over its width. Results are new tensors unless said
// otherwise. A layer lives in its unit and throws nothing of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/nn/tied_table.h"
#include "core/nn/unit.h"

namespace ringside {

/// How PyTorch starts the weights and biases of a linear layer: within 1 / sqrt(in) around 0.
Init uniform_for(std::int64_t in);

/// y = activation(x weight^T + bias). Parameters: "NAME.weight" [out, in], "NAME.bias" [out].
class Linear {
 public:
  /// Without `bias` there is none.
  Linear(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out, Init weight,
         std::optional<Init> bias, Activation activation = Activation::none);
  /// The weight is another unit's table [out, in].
  Linear(Unit& unit, const std::string& name, std::shared_ptr<TiedTable> weight,
         std::optional<Init> bias);

  /// [M, in] -> [M, out], into `out` where there is one.
  Tensor forward(const Tensor& x, const Pass& pass, const Tensor& out = {});
  /// [M, out] -> [M, in]. Overwrites `dy` where there is an activation.
  Tensor backward(const Tensor& dy);

 private:
  Tensor weight() const { return tied_ ? tied_->value() : unit_.value(weight_); }

  Unit& unit_;
  std::int64_t in_, out_;
  Activation activation_;
  std::size_t weight_ = 0;
  std::shared_ptr<TiedTable> tied_;  // in the place of a weight of its own
  std::optional<std::size_t> bias_;
  Tensor x_, pre_;
};

/// Normalises rows. Parameters: "NAME.weight" [width], 1 at the start; "NAME.bias" [width], 0.
class LayerNorm {
 public:
  LayerNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon = 1e-5f);

  /// [M, width] -> [M, width]. With a `residual` x becomes x + residual, and that is normalised.
  Tensor forward(const Tensor& x, const Tensor& residual, const Pass& pass);
  /// The gradient of what was normalised. With `dresidual`, the gradient that reaches it past the
  /// norm, it is added and the result takes the place of `dresidual`.
  Tensor backward(const Tensor& dy, const Tensor& dresidual = {});

 private:
  Unit& unit_;
  std::int64_t width_;
  float epsilon_;
  std::size_t weight_, bias_;
  Tensor x_, mean_, rstd_;
};

/// A vector for each token and, if there are positions, one for each place in the sample.
/// Parameters: "NAME.tokens" [vocabulary, width], "NAME.positions" [positions, width].
class Embedding {
 public:
  /// `positions` 0: none.
  Embedding(Unit& unit, const std::string& name, std::int64_t vocabulary, std::int64_t positions,
            std::int64_t width, Init init);

  /// For another unit that uses the table of tokens as well: its gradient is added in backward.
  std::shared_ptr<TiedTable> share();

  /// int32 [B, T] -> [B * T, width]; T at most `positions`.
  Tensor forward(const Tensor& tokens, const Pass& pass);
  void backward(const Tensor& dy);

 private:
  Unit& unit_;
  std::int64_t width_;
  std::size_t token_table_;
  std::optional<std::size_t> position_table_;
  std::shared_ptr<TiedTable> shared_;
  Tensor tokens_;
};

/// Multi-head self attention (Vaswani et al. 2017). Parameters: those of the linear layers
/// "NAME.qkv" (width -> 3 width: queries, keys, values; heads inside each) and "NAME.out".
class SelfAttention {
 public:
  /// `heads` divides `width`. Biases start at 0.
  SelfAttention(Unit& unit, const std::string& name, std::int64_t width, std::int64_t heads,
                bool causal, Init qkv, Init out);

  /// [M, width] -> [M, width], the rows of `samples` samples of M / samples positions.
  Tensor forward(const Tensor& x, std::int64_t samples, const Pass& pass);
  Tensor backward(const Tensor& dy);

 private:
  Unit& unit_;
  std::int64_t heads_, head_width_;
  bool causal_;
  Linear qkv_layer_, out_layer_;
  Tensor qkv_, y_, statistics_;
};

}  // namespace ringside
