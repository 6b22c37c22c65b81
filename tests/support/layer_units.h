// Units with one layer each, and one without, for tests.
#pragma once

#include "core/nn/batch_norm.h"
#include "core/nn/dropout.h"

namespace ringside::testing {

/// A unit that owns its ranges of parameters and gradients, which a test may fill.
class OwnRanges : public Unit {
 public:
  using Unit::Unit;
  void bind_own() {
    const std::int64_t count = layout().count();
    parameters = device().tensor({count}, MemoryKind::parameter);
    gradients = device().tensor({count}, MemoryKind::gradient);
    bind(parameters, gradients);
  }
  Tensor parameters, gradients;
};

/// A unit of `count` parameters that returns its input.
class ValuesUnit final : public Unit {
 public:
  ValuesUnit(std::int64_t count, Device& device) : Unit("values", device) {
    declare().add("values", {count}, {Init::Kind::constant, 1});
  }
  Tensor forward(const Tensor& input, const Pass&, Saved&) override { return input; }
  Tensor backward(const Tensor& grad_output, Saved&) override { return grad_output; }
};

/// A batch norm of inputs [M, channels].
class BatchNormUnit final : public OwnRanges {
 public:
  BatchNormUnit(Device& device, std::int64_t channels, bool relu = false)
      : OwnRanges("unit", device), norm(*this, "norm", channels, relu) {
    bind_own();
    for (std::int64_t c = 0; c < channels; ++c) {
      parameters.data<float>()[c] = 1 + 0.1f * static_cast<float>(c);
      parameters.data<float>()[channels + c] = 0.2f * static_cast<float>(c);
    }
  }
  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    return norm.forward(input, {}, pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    return norm.backward(grad_output, saved);
  }

  BatchNorm norm;
};

/// Dropout on inputs [B, ...], which are overwritten.
class DropoutUnit final : public OwnRanges {
 public:
  DropoutUnit(Device& device, const std::string& name, double probability)
      : OwnRanges(name, device), dropout(*this, "dropout", probability) {
    declare().add("unused", {1}, {});
    bind_own();
  }
  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    return dropout.forward(input, input.shape()[0], pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    return dropout.backward(grad_output, saved);
  }

  DropoutLayer dropout;
};

}  // namespace ringside::testing
