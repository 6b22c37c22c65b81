// Batch norm: a layer on images, channels last. See core/nn/layers.h for what all layers do.
#pragma once

#include "core/nn/slot.h"

namespace ringside {

/// y = (x - mean) / sqrt(variance + epsilon) * weight + bias for each channel (Ioffe and Szegedy
/// 2015); then an optional residual is added, and with `relu` a relu is applied. In training, mean
/// and variance are those of the micro-batch, taken over all ranks of the unit's group if the unit
/// has joined one (all these ranks must have equally many samples). A pass with the micro-batches
/// of several ranks (Pass::ranks) computes with the same bits what these ranks do as a group. In
/// evaluation they are the running statistics. Parameters: "NAME.weight" [channels], initially 1;
/// "NAME.bias" [channels], initially 0. Statistics: "NAME.running_mean", initially 0, and
/// "NAME.running_var", initially 1.
///
/// Each micro-batch of a step has its own running statistics (Unit::Statistic). Once a step they
/// move by a tenth towards the mean and variance of this micro-batch; the variance is first
/// multiplied by rows / (rows - 1), as for a sample of a population. Since the moves are linear,
/// the mean of the running statistics moves by a tenth towards the mean over the micro-batches of
/// the step. (PyTorch has one running statistic and moves it at each micro-batch.)
class BatchNorm {
 public:
  static constexpr float usual_epsilon = 1e-5f;

  BatchNorm(Unit& unit, const std::string& name, std::int64_t channels, bool relu,
            float epsilon = usual_epsilon);

  /// Maps [..., channels] to the same shape. `residual` has the extents of x, or is empty. In
  /// training throws Error for a single row, which has no variance.
  Tensor forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved);
  /// Returns the gradient of x in the memory of `dy`. If forward had a residual, `dy` becomes the
  /// gradient of the residual, and the gradient of x is a new tensor.
  Tensor backward(const Tensor& dy, Saved& saved);

 private:
  struct Kept {
    Tensor x, y, mean, variance;
    bool residual;
    std::int64_t ranks;
  };

  /// Mean and variance [2, channels] of all rows that are normalised together: over the ranks of
  /// the group, or over those of the pass.
  Tensor batch_statistics(const Tensor& x, std::int64_t ranks) const;
  void move_running(const Tensor& statistics, std::int64_t rows, const Pass& pass);
  /// The running statistic number `statistic` of one micro-batch. Before any training only the
  /// first micro-batch has statistics: the initial values, which are returned for every
  /// micro-batch.
  const Tensor& running(std::size_t statistic, std::int64_t micro_batch);
  /// Makes the running statistics of later micro-batches that do not exist yet, as copies of those
  /// of the first micro-batch.
  void make_running(std::int64_t micro_batches);
  Tensor first(const Tensor& pair) const { return pair.range(0, channels_); }
  Tensor second(const Tensor& pair) const { return pair.range(channels_, channels_); }
  std::int64_t group_size() const { return unit_.group() ? unit_.group()->size() : 1; }

  Unit& unit_;
  std::int64_t channels_;
  bool relu_;
  float epsilon_;
  std::size_t weight_, bias_;
  std::size_t running_mean_, running_variance_;
  Slot<Kept> kept_;
};

}  // namespace ringside
