// Layers, the building blocks of units.
//
// The constructor of a layer declares the layer's parameters in the layout of its unit. When the
// layer computes, it gets the values of the parameters from the unit. If the pass says so,
// forward() keeps what backward() needs in the unit's Saved. backward() takes it out again, and
// overwrites the gradients of the layer's parameters at once or puts that off (Saved::puts_off). A
// tensor of rows may have any shape: its number of rows M is its count divided by its width.
// Results are new tensors unless said otherwise. A layer lives in its unit, and throws Error only
// where its own comment says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/nn/slot.h"
#include "core/nn/tied_table.h"
#include "core/nn/unit.h"

namespace ringside {

/// Recomputes the input of a layer whose forward did not keep it, from what other layers kept.
using Remake = std::function<Tensor(Saved&)>;

/// PyTorch's initial values for weights and biases of a linear layer: uniform between
/// -1 / sqrt(in) and 1 / sqrt(in).
Init uniform_for(std::int64_t in);

/// y = activation(x * weight^T + bias). Parameters: "NAME.weight" [out, in], "NAME.bias" [out].
class Linear {
 public:
  /// Without a value for `bias` the layer has no bias.
  Linear(Unit& unit, const std::string& name, std::int64_t in, std::int64_t out, Init weight,
         std::optional<Init> bias, Activation activation = Activation::none);
  /// The weight is a table [out, in] that belongs to another unit.
  Linear(Unit& unit, const std::string& name, std::shared_ptr<TiedTable> weight,
         std::optional<Init> bias);

  /// Maps [M, in] to [M, out]. Writes to `out` unless it is empty.
  Tensor forward(const Tensor& x, const Pass& pass, Saved& saved, const Tensor& out = {});
  /// Keeps `x` for backward() as forward() does, without computing. Not for layers with an
  /// activation, nor for the micro-batches of several ranks.
  void keep(const Tensor& x, Saved& saved) const;
  /// Maps [M, out] to [M, in]. If the layer has an activation, `dy` is overwritten.
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Tensor x, pre{};
    std::int64_t ranks = 1;
  };

  Tensor weight(Saved& saved) const {
    return tied_ ? tied_->value(saved.side()) : unit_.value(weight_);
  }
  /// Completes an operation that is to compute the gradients of the parameters, too.
  void add_weights(LinearBackward& op, const Kept& kept, std::int64_t rank, SideValues& side) const;

  Unit& unit_;
  std::int64_t in_, out_;
  Activation activation_;
  std::size_t weight_ = 0;
  std::shared_ptr<TiedTable> tied_;  // instead of a weight of its own
  std::optional<std::size_t> bias_;
  Slot<Kept> kept_;
};

/// Normalises each row. Parameters: "NAME.weight" [width], initially 1; "NAME.bias" [width],
/// initially 0.
class LayerNorm {
 public:
  LayerNorm(Unit& unit, const std::string& name, std::int64_t width, float epsilon = 1e-5f);

  /// Maps [M, width] to [M, width]. With a `residual`, x is overwritten by x + residual, and that
  /// sum is normalised.
  Tensor forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved);
  /// Returns the gradient of the values that were normalised. A residual connection brings these
  /// values a second gradient, `dresidual`: if it is not empty, the result is the sum of both
  /// gradients, in the memory of `dresidual`, or in its own if gradients of parameters are put off.
  Tensor backward(const Tensor& dy, const Tensor& dresidual, Saved& saved);
  /// Recomputes the result of forward() with the same bits. Call it before the backward()
  /// of that forward, which must have had Pass::keep and no residual: with a residual, forward
  /// normalises the sum before it rounds it to 16 bits.
  Tensor again(Saved& saved);

 private:
  struct Kept {
    Tensor x, mean, rstd;
  };

  Unit& unit_;
  std::int64_t width_;
  float epsilon_;
  std::size_t weight_, bias_;
  Slot<Kept> kept_;
};

/// A vector for each token, plus a vector for each position in the sample if the layer has
/// positions. Parameters: "NAME.tokens" [vocabulary, width], "NAME.positions" [positions, width].
class Embedding {
 public:
  /// With `positions` 0 there is no table of positions.
  Embedding(Unit& unit, const std::string& name, std::int64_t vocabulary, std::int64_t positions,
            std::int64_t width, Init init);

  /// Shares the table of tokens with another unit, at the given edge of the model. backward() then
  /// adds the other unit's part of the gradient.
  std::shared_ptr<TiedTable> share(std::size_t edge);

  /// Maps int32 [B, T] to [B * T, width]; T is at most `positions`, unless `positions` is 0.
  Tensor forward(const Tensor& tokens, const Pass& pass, Saved& saved);
  void backward(const Tensor& dy, Saved& saved);

 private:
  Unit& unit_;
  std::int64_t width_;
  std::size_t token_table_;
  std::optional<std::size_t> position_table_;
  std::shared_ptr<TiedTable> shared_;
  Slot<Tensor> tokens_;
};

}  // namespace ringside
