// Optimizers on flat ranges.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/optim/optimizer_config.h"

namespace ringside {

/// The parameters of the model that an optimizer's own flat range holds.
struct ParameterMap {
  /// Elements [begin, begin + count) of the range: a stretch that belongs to one parameter.
  struct Stretch {
    std::int64_t begin = 0, count = 0;
    std::size_t parameter = 0;  // index in the model's order
    bool matrix = false;        // whether the parameter has two or more extents
  };
  std::vector<Stretch> stretches;  // sorted by `begin`; elements in no stretch are padding
  std::size_t parameters = 0;      // number of parameters of the whole model
};

/// The number and the factors of an optimizer's update.
struct StepInfo {
  std::int64_t step = 0;  // counted from 0
  float loss_scale = 1;   // factor by which the gradients have been multiplied
  double lr_factor = 1;   // factor of the learning rate in this update
};

/// Elements [begin, begin + parameters.count()) of an optimizer's range. The gradients have the
/// dtype of the parameters, or fp32 where they were summed in it (sum_dtype() of
/// core/plan/train_config.h).
struct ParameterRange {
  std::int64_t begin = 0;
  Tensor parameters, gradients;
};

/// The state that an optimizer keeps of every element: a flat range as long as the optimizer's own,
/// fp32. The names are those of the operands in core/device/ops/flat.h, such as "first_moment".
struct OptimizerState {
  std::string_view name;
  Tensor values;
};
inline constexpr std::string_view master_values = "master";

/// Updates one flat range of parameters. The range may be the whole model, a shard or a server's
/// part: the resulting bits are the same. The optimizer owns its state (fp32,
/// MemoryKind::optimizer): moments, zero at first, and for parameters of 16 bits their master
/// values, which at first equal the parameters.
///
/// Some updates need sums over the whole model first. The sums are made in rounds. In a round every
/// optimizer of the model measures its own range and returns ExactSums (core/num/exact_sum.h). The
/// caller adds these up over all optimizers, double by double, which is exact, and gives the totals
/// to settle() of every optimizer. If there are no rounds, an element may be updated as soon as its
/// gradient is there. Only the thread that owns an optimizer may call it.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// The number of rounds, often 0. The first round sums the squares of the gradients if these are
  /// clipped, or if steps are skipped (RunSize::skips); LAMB has a last round for its norms.
  virtual int rounds() const = 0;
  /// The number of doubles that a round measures, the same for every optimizer of the model:
  /// ExactSum::digits for each sum.
  virtual std::size_t sums(int round) const = 0;
  /// Returns this range's part of the sums. Every element is measured once in a round. Blocks until
  /// the sums are computed.
  virtual std::vector<double> measure(int round, const ParameterRange& range,
                                      const StepInfo& info) = 0;
  /// Takes the totals of a round. Returns false if the gradients are not finite and steps are
  /// skipped: the step ends here, and nothing has changed.
  virtual bool settle(int round, std::span<const double> totals, const StepInfo& info) = 0;
  /// Updates the elements of the range; called after all rounds, once for every element. An
  /// optimizer on another processor only begins to: finish() waits for the parameters.
  virtual void update(const ParameterRange& range, const StepInfo& info) = 0;

  /// Optional, before measure() and update(): the caller promises that the range's gradients are
  /// complete, and that its parameters and gradients are not used before finish(). An optimizer on
  /// another processor begins at once; without rounds it may do all that update() would, and
  /// update() must then be called in the same step. Does not block.
  virtual void expect(const ParameterRange& range, const StepInfo& info) {
    static_cast<void>(range), static_cast<void>(info);
  }
  /// Whether expect() does anything; if not, callers need not look for gradients that are complete.
  virtual bool expects() const { return false; }
  /// Must be called before parameters are used again. Returns when the elements [begin, begin +
  /// count) have their updated values; may block.
  virtual void finish(std::int64_t begin, std::int64_t count) {
    static_cast<void>(begin), static_cast<void>(count);
  }
  /// The optimizer's state; the tensors share its memory. It includes master values only if the
  /// parameters have 16 bits. Code that changes master values must also round them to 16 bits and
  /// write them to the parameters.
  virtual std::vector<OptimizerState> state() const = 0;
  /// Somebody else has written all of the state, or, where there are no master values, the
  /// parameters; the optimizer has skipped `skipped` steps so far. It rounds its master values to
  /// the parameters of these ranges, which are its whole range, and renews copies that it keeps of
  /// them. Blocks. The ranges need no gradients.
  virtual void restored(std::span<const ParameterRange> ranges, std::int64_t skipped) = 0;
};

/// The factor by which gradients are multiplied that are clipped as torch.nn.utils.clip_grad_norm_
/// does: at most 1, and 1 if they are not clipped. `totals` are those of the first round; gradients
/// have been multiplied by `loss_scale`. Larger totals never give a larger factor.
double clip_factor(const OptimizerConfig& config, std::span<const double> totals,
                   double loss_scale);
/// Whether an update with these totals of the first round is that of gradients left as they are:
/// the totals are finite, and nothing is clipped. If it is not so for a part of the totals, it is
/// not so for all.
bool leaves_gradients(const OptimizerConfig& config, std::span<const double> totals,
                      double loss_scale);

/// For callers that pass sums on but have no optimizer: rounds_of() returns what
/// Optimizer::rounds() would return, and overflowed() whether settle() would return false.
int rounds_of(const OptimizerConfig& config, bool skips);
bool overflowed(bool skips, int round, std::span<const double> totals);

/// Does all rounds of an optimizer whose whole range is `ranges` together. `sum` replaces this
/// optimizer's sums by the totals over all optimizers of the model. Returns false as settle() does.
bool settle_rounds(Optimizer& optimizer, std::span<const ParameterRange> ranges,
                   const StepInfo& info, const std::function<void(std::span<double>)>& sum);
inline bool settle_rounds(Optimizer& optimizer, const ParameterRange& range, const StepInfo& info,
                          const std::function<void(std::span<double>)>& sum) {
  return settle_rounds(optimizer, std::span(&range, 1), info, sum);
}

}  // namespace ringside
