// FlatOptimizer: the base of all optimizers; and the functions that make them.
#pragma once

#include <memory>
#include <vector>

#include "core/num/exact_sum.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// Keeps the master values, clips gradients by their norm, gives each parameter its weight decay,
/// and counts the updates.
class FlatOptimizer : public Optimizer {
 public:
  int rounds() const override { return norm_rounds() + own_rounds(); }
  std::size_t sums(int round) const override {
    return ExactSum::digits * (round < norm_rounds() ? 1 : own_sums());
  }
  std::vector<double> measure(int round, const ParameterRange& range,
                              const StepInfo& info) override;
  bool settle(int round, std::span<const double> totals, const StepInfo& info) override;
  std::vector<OptimizerState> state() const override;
  void restored(std::span<const ParameterRange> ranges, std::int64_t skipped) override;

 protected:
  using Stretch = ParameterMap::Stretch;

  /// The numbers that an update gets besides its tensors.
  struct Scalars {
    float lr = 0, weight_decay = 0, gradient_scale = 1;
    std::int64_t step = 1;  // number of this update, from 1; skipped updates do not count
  };

  FlatOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
                const Tensor& parameters, ParameterMap map);

  /// Calls `update` for the parts of the range in which all elements have the same weight decay;
  /// the parts are as few as possible.
  void each_alike(const ParameterRange& range, const StepInfo& info,
                  const std::function<void(const ParameterRange&, const Scalars&)>& update) const;
  /// own_rounds(): the number of rounds of sums, 0 or 1, that this optimizer needs after the round
  /// in which the norm of the gradients is measured. own_sums(): the number of sums in that round.
  virtual int own_rounds() const { return 0; }
  virtual std::size_t own_sums() const { return 0; }
  virtual std::vector<double> measure_own(const ParameterRange&, const StepInfo&) { return {}; }
  virtual void settle_own(std::span<const double>) {}
  /// The state besides the master values. Entries without values are left out by state().
  virtual std::vector<OptimizerState> own_state() const = 0;

  /// Returns the stretches that overlap the range, cut off at the ends of the range.
  std::vector<Stretch> stretches_in(const ParameterRange& range) const;
  float decay_of(const Stretch& stretch) const;
  Scalars scalars(const StepInfo& info, float weight_decay) const;
  /// Returns the part of the range that the stretch covers. The stretch must lie in the range.
  static ParameterRange part(const ParameterRange& range, const Stretch& stretch);

  const OptimizerConfig& config() const { return config_; }
  const ParameterMap& map() const { return map_; }
  Device& device() const { return device_; }
  Tensor master(const ParameterRange& range) const { return of(master_, range); }
  /// The part of a state that belongs to the range; empty if the state is empty.
  static Tensor of(const Tensor& state, const ParameterRange& range);
  /// A state of zeros, with one value for each element of `parameters`.
  static Tensor zeros(Device& device, const Tensor& parameters);

 private:
  int norm_rounds() const { return rounds_of(config_, skips_) - own_rounds(); }

  OptimizerConfig config_;
  RunSize run_;
  Device& device_;
  ParameterMap map_;
  bool skips_;  // steps whose gradients are not finite
  Tensor master_;
  double clip_factor_ = 1;
  std::int64_t skipped_ = 0;
};

/// AdamW: Adam with decoupled weight decay. Algorithm 2 of Loshchilov and Hutter, ICLR 2019. The
/// optimizer's state is two moments in fp32.
std::unique_ptr<Optimizer> make_adamw(const OptimizerConfig& config, const RunSize& run,
                                      Device& device, const Tensor& parameters, ParameterMap map);

/// SGD, with or without momentum. Sutskever et al., ICML 2013, in PyTorch's form, with Nesterov's
/// momentum if asked for. State: the velocity, fp32; without momentum no state.
std::unique_ptr<Optimizer> make_sgd(const OptimizerConfig& config, const RunSize& run,
                                    Device& device, const Tensor& parameters, ParameterMap map);

/// LAMB: AdamW's direction, with a learning rate for each parameter. Algorithm 2 of You et al.,
/// ICLR 2020, with the identity as the function phi. An update subtracts lr * (|p| / |u|) * u from
/// a parameter p. Here u = m / (sqrt(v) + epsilon) + weight_decay * p, where m and v are the
/// moments after bias correction. If |p| or |u| is 0, the update subtracts lr * u. As NVIDIA's
/// FusedLAMB does by default, it also subtracts lr * u from parameters without decay: biases and
/// norms if `decay` is "matrices", and all parameters if weight_decay is 0.
std::unique_ptr<Optimizer> make_lamb(const OptimizerConfig& config, const RunSize& run,
                                     Device& device, const Tensor& parameters, ParameterMap map);

}  // namespace ringside
