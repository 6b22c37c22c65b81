// Unit: a part of the model that is computed, gathered and freed as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/device.h"
#include "core/nn/pass.h"
#include "core/nn/saved.h"
#include "core/tensor/shape.h"

namespace ringside {

/// Initial value of a parameter: every element is a function of the seed and its position
/// (core/num/random.h).
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  /// The constant, the standard deviation, or the half-width of an interval around 0.
  float value = 0;
};

/// One named parameter, which is elements [begin, begin + shape.count()) of the unit's range.
struct Parameter {
  std::string name;
  Shape shape;
  Init init;
  std::int64_t begin = 0;
};

/// The parameters of a unit in the order of their declaration, without gaps.
class Layout {
 public:
  /// Declares the next parameter and returns its index.
  std::size_t add(std::string name, Shape shape, Init init) {
    parameters_.push_back({std::move(name), shape, init, count_});
    count_ += shape.count();
    return parameters_.size() - 1;
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Number of elements of the whole range.
  std::int64_t count() const { return count_; }

 private:
  std::vector<Parameter> parameters_;
  std::int64_t count_ = 0;
};

/// For example an embedding, a transformer block or a hidden layer. A unit owns no parameters: a
/// scheme binds it to the range that holds their values while it is computed. It keeps nothing of a
/// micro-batch either: what backward needs of forward is in the caller's Saved, without any view of
/// a parameter. So several micro-batches may be under way, and a scheme may bind the unit to
/// another range in between. The device must outlive the unit.
class Unit {
 public:
  Unit(std::string name, Device& device) : name_(std::move(name)), device_(device) {}
  virtual ~Unit() = default;
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  const std::string& name() const { return name_; }
  const Layout& layout() const { return layout_; }

  /// Sets the flat ranges in which the unit computes. Each has layout().count() elements, and both
  /// have the same dtype. Either may be empty while it is not needed. For a pass with the
  /// micro-batches of several ranks, the gradients of one rank lie behind those of the rank before.
  void bind(Tensor parameters, Tensor gradients);

  /// Keeps in `saved` what backward() needs if `pass.keep` is set, else nothing. Reads and sets
  /// values of the model's edges in saved.side() (Model::edges).
  virtual Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) = 0;

  /// Overwrites every element of the bound gradient range and takes the kept activations out of
  /// `saved`. May overwrite `grad_output`. Returns the gradient of the input, or an empty tensor if
  /// the input is not differentiable (tokens). Must be called exactly once for each forward() with
  /// `pass.keep`.
  ///
  /// With saved.puts_off() leaves the gradient range alone, which need not be bound. What is put
  /// off may hold `grad_output` and overwrite it, so nobody else writes to it before
  /// saved.finish_weights(), which reads no parameters and overwrites the range that is bound then.
  /// No such work reads the result, which the caller may overwrite.
  virtual Tensor backward(const Tensor& grad_output, Saved& saved) = 0;

  /// An earlier unit of the model whose parameters this unit reads as well (a tied table), or null.
  /// A scheme binds the lender's parameters whenever this unit computes. If it binds the lender's
  /// gradients too, to the same range as later for the lender's own backward, this unit writes its
  /// part there (core/nn/tied_table.h).
  virtual const Unit* lender() const { return nullptr; }

  /// A running statistic of a batch norm: fp32, and not a parameter. A unit keeps one value of it
  /// for each micro-batch of a step. The model's value is the mean over all micro-batches of all
  /// ranks, so its bits do not depend on which rank computed which micro-batch.
  struct Statistic {
    std::string name;
    Tensor values;              // of the first micro-batch; evaluation computes with these
    std::vector<Tensor> later;  // of later micro-batches; empty if steps have one
  };
  const std::vector<Statistic>& statistics() const { return statistics_; }
  /// Sets the ranks over which batch norms combine their statistics; null: this rank alone. The
  /// group must outlive the unit.
  void join(Communicator* group) { group_ = group; }

  // The rest is for layers (core/nn/layers.h), which declare their parameters in the constructor of
  // their unit and look them up in the bound ranges when they compute.
  Layout& declare() { return layout_; }
  /// Returns the index of the statistic.
  std::size_t declare(Statistic statistic) {
    statistics_.push_back(std::move(statistic));
    return statistics_.size() - 1;
  }
  /// Returns the number of one more place in each Saved of the unit (core/nn/slot.h).
  std::size_t declare_slot() { return slots_++; }
  Statistic& statistic(std::size_t index) { return statistics_[index]; }
  Communicator* group() const { return group_; }
  Device& device() const { return device_; }
  DType dtype() const { return parameters_.dtype(); }
  bool has_gradients() const { return static_cast<bool>(gradients_); }
  Tensor value(std::size_t parameter) const { return named(parameters_, parameter); }
  Tensor gradient(std::size_t parameter, std::int64_t rank = 0) const {
    return named(gradients_, parameter, rank * layout_.count());
  }

 private:
  Tensor named(const Tensor& range, std::size_t parameter, std::int64_t begin = 0) const;

  std::string name_;
  Device& device_;
  Layout layout_;
  Tensor parameters_, gradients_;
  std::vector<Statistic> statistics_;
  std::size_t slots_ = 0;
  Communicator* group_ = nullptr;
};

}  // namespace ringside
