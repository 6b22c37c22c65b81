// What all optimizers have in common.
#pragma once

#include <vector>

#include "core/base/exact_sum.h"
#include "core/optim/optimizer.h"

namespace ringside {

/// Masters, the norm of the gradients, decay groups and the count of updates.
class FlatOptimizer : public Optimizer {
 public:
  int rounds() const override { return norm_rounds() + own_rounds(); }
  std::size_t sums(int round) const override {
    return ExactSum::digits * (round < norm_rounds() ? 1 : own_sums());
  }
  std::vector<double> measure(int round, const ParameterRange& range,
                              const StepInfo& info) override;
  bool settle(int round, std::span<const double> totals, const StepInfo& info) override;

 protected:
  using Stretch = ParameterMap::Stretch;

  /// What an update is told beside its tensors.
  struct Scalars {
    float lr = 0, weight_decay = 0, gradient_scale = 1;
    std::int64_t step = 1;  // updates, this one included; those that were skipped do not count
  };

  FlatOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
                const Tensor& parameters, ParameterMap map);

  /// Calls `update` for the parts of the range, as few as there can be, whose elements decay alike.
  void each_alike(const ParameterRange& range, const StepInfo& info,
                  const std::function<void(const ParameterRange&, const Scalars&)>& update) const;
  /// Rounds after that of the norm, at most one, and the sums in it.
  virtual int own_rounds() const { return 0; }
  virtual std::size_t own_sums() const { return 0; }
  virtual std::vector<double> measure_own(const ParameterRange&, const StepInfo&) { return {}; }
  virtual void settle_own(std::span<const double>) {}

  /// The parts of the stretches that lie in the range.
  std::vector<Stretch> stretches_in(const ParameterRange& range) const;
  float decay_of(const Stretch& stretch) const;
  Scalars scalars(const StepInfo& info, float weight_decay) const;
  /// The part of a range for a stretch in it.
  static ParameterRange part(const ParameterRange& range, const Stretch& stretch);

  const OptimizerConfig& config() const { return config_; }
  const ParameterMap& map() const { return map_; }
  Device& device() const { return device_; }
  Tensor master(const ParameterRange& range) const { return of(master_, range); }
  /// The range's part of a state; empty of one that is.
  static Tensor of(const Tensor& state, const ParameterRange& range);
  /// A number for each of the parameters.
  static Tensor zeros(Device& device, const Tensor& parameters);

 private:
  int norm_rounds() const { return rounds_of(config_, dtype_) - own_rounds(); }

  OptimizerConfig config_;
  RunSize run_;
  Device& device_;
  ParameterMap map_;
  DType dtype_;
  Tensor master_;
  double clip_factor_ = 1;
  std::int64_t skipped_ = 0;
};

}  // namespace ringside
