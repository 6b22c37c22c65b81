// Unit: the part of a model that is computed, gathered and freed together.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/device.h"
#include "core/nn/layout.h"
#include "core/nn/pass.h"

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

  /// Keeps what backward() needs if the pass says so; else nothing.
  virtual Tensor forward(const Tensor& input, const Pass& pass) = 0;

  /// Overwrites every element of the bound gradient range and frees the kept activations. May
  /// overwrite `grad_output`. Returns the gradient of the input, empty for a unit whose input is
  /// not differentiable (tokens). Exactly one call for each forward() that kept.
  virtual Tensor backward(const Tensor& grad_output) = 0;

  /// Another unit of the model, an earlier one, whose parameters this one reads as well (a tied
  /// table): a scheme has them bound whenever this unit computes. The gradient is that unit's
  /// affair.
  virtual const Unit* lender() const { return nullptr; }

  /// A running statistic of a batch norm: fp32, no parameter. Every micro-batch of a step has one
  /// of its own; that of the model is their mean over all micro-batches of all ranks, whose bits
  /// therefore do not depend on which rank computed which micro-batch.
  struct Statistic {
    std::string name;
    Tensor values;              // of the first micro-batch; evaluation computes with these
    std::vector<Tensor> later;  // of the later ones; empty until a step with several was computed
  };
  const std::vector<Statistic>& statistics() const { return statistics_; }
  /// Ranks that batch norms put their statistics together with; null: none. Outlives the unit.
  void join(Communicator* group) { group_ = group; }

  // For layers (core/nn/layers.h), which declare their parameters in the constructor of their unit
  // and look them up in the bound ranges when they compute.
  Layout& declare() { return layout_; }
  /// Returns the index of the statistic.
  std::size_t declare(Statistic statistic) {
    statistics_.push_back(std::move(statistic));
    return statistics_.size() - 1;
  }
  Statistic& statistic(std::size_t index) { return statistics_[index]; }
  Communicator* group() const { return group_; }
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
  std::vector<Statistic> statistics_;
  Communicator* group_ = nullptr;
};

}  // namespace ringside
