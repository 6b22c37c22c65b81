// Optimizers on flat ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/optim/optimizer_config.h"

namespace ringside {

/// What an optimizer's own flat range holds of the model.
struct ParameterMap {
  /// Elements [begin, begin + count) of the range: a stretch of one parameter.
  struct Stretch {
    std::int64_t begin = 0, count = 0;
    std::size_t parameter = 0;  // of the model, in its order
    bool matrix = false;        // two or more extents
  };
  std::vector<Stretch> stretches;  // by `begin`; what lies in none is padding
  std::size_t parameters = 0;      // that the whole model has
};

/// Which update this is.
struct StepInfo {
  std::int64_t step = 0;  // from 0
  float loss_scale = 1;   // that the gradients have been multiplied by
};

/// Elements [begin, begin + parameters.count()) of an optimizer's range; one dtype.
struct ParameterRange {
  std::int64_t begin = 0;
  Tensor parameters, gradients;
};

/// Updates one flat range of parameters: the whole model, a shard or a server's part give the same
/// bits. Owns its state (fp32, kind optimizer): moments, zero at first, and where the parameters
/// have 16 bits their master values, which are those of the parameters at first.
///
/// Some updates want sums over the whole model first. They come in rounds: every optimizer of the
/// model measures what it has, as ExactSums (core/base/exact_sum.h); the parts are added up, double
/// by double, without rounding; all settle on the totals. Without rounds an element may be updated
/// as soon as its gradient is there. For the thread that owns it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// The first is of the gradients' squares where they are clipped or fp16, the last of LAMB's
  /// norms; often 0.
  virtual int rounds() const = 0;
  /// Doubles that a round measures, here as everywhere in the model: ExactSum::digits a sum.
  virtual std::size_t sums(int round) const = 0;
  /// This range's part of the sums; every element is measured once a round. Blocks until they are
  /// computed.
  virtual std::vector<double> measure(int round, const ParameterRange& range,
                                      const StepInfo& info) = 0;
  /// False where the gradients are fp16 and not finite: the step ends here, and nothing has
  /// changed.
  virtual bool settle(int round, std::span<const double> totals, const StepInfo& info) = 0;
  /// After all rounds, once for every element.
  virtual void update(const ParameterRange& range, const StepInfo& info) = 0;
};

/// What Optimizer::rounds() and settle() answer for gradients of that dtype, for those who only
/// pass sums on.
int rounds_of(const OptimizerConfig& config, DType gradients);
bool overflowed(DType gradients, int round, std::span<const double> totals);

/// All rounds of an optimizer that has `range` and no more; `sum` makes the parts of all of them
/// totals. False as settle().
bool settle_rounds(Optimizer& optimizer, const ParameterRange& range, const StepInfo& info,
                   const std::function<void(std::span<double>)>& sum);

}  // namespace ringside
