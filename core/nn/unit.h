// Unit: the part of a model that is computed, gathered and freed together.
#pragma once

#include <string>

#include "core/device/device.h"
#include "core/nn/layout.h"

namespace ringside {

/// An embedding, a transformer block, a hidden layer. A unit owns no parameters: a scheme binds it
/// to whatever range holds their values while it is computed. Between forward and backward it
/// keeps the activations that backward needs, and no view of a parameter, so a scheme may rebind
/// it in between. The device must outlive it.
class Unit {
 public:
  Unit(std::string name, Device& device) : name_(std::move(name)), device_(device) {}
  virtual ~Unit() = default;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  const Layout& layout() const { return layout_; }

  /// Flat ranges of layout().count() elements, of one dtype, in which the unit computes; either may
  /// be empty while it is not needed.
  void bind(Tensor parameters, Tensor gradients);

  /// With `training` keeps what backward() needs; without, keeps nothing.
  virtual Tensor forward(const Tensor& input, bool training) = 0;

  /// Overwrites every element of the bound gradient range and frees the kept activations. May
  /// overwrite `grad_output`. Returns the gradient of the input, empty for a unit whose input is
  /// not differentiable (tokens). Exactly one call for each forward() with `training`.
  virtual Tensor backward(const Tensor& grad_output) = 0;

  // For layers (core/nn/layers.h), which declare their parameters in the constructor of their unit
  // and look them up in the bound ranges when they compute.
  Layout& declare() { return layout_; }
  Device& device() const { return device_; }
  DType dtype() const { return parameters_.dtype(); }
  Tensor value(std::size_t parameter) const { return named(parameters_, parameter); }
  Tensor gradient(std::size_t parameter) const { return named(gradients_, parameter); }

 private:
  Tensor named(const Tensor& range, std::size_t parameter) const;

  std::string name_;
  Device& device_;
  Layout layout_;
  Tensor parameters_, gradients_;
};

}  // namespace ringside
