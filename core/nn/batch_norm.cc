#include "core/nn/batch_norm.h"

#include <vector>

#include "core/base/error.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

constexpr float momentum = 0.1f;

}  // namespace

BatchNorm::BatchNorm(Unit& unit, const std::string& name, std::int64_t channels, bool relu)
    : unit_(unit),
      channels_(channels),
      relu_(relu),
      weight_(unit.declare().add(name + ".weight", {channels}, layer::ones)),
      bias_(unit.declare().add(name + ".bias", {channels}, layer::zeros)),
      running_(unit.device().tensor({2, channels}, MemoryKind::parameter)) {
  std::vector<float> start(static_cast<std::size_t>(2 * channels));
  std::fill(start.begin() + channels, start.end(), 1.0f);
  unit.device().write(running_, std::as_bytes(std::span(start)));
  unit.declare(Unit::Statistic{name + ".running_mean", first(running_)});
  unit.declare(Unit::Statistic{name + ".running_var", second(running_)});
}

Tensor BatchNorm::batch_statistics(const Tensor& x) const {
  Device& device = unit_.device();
  const Kernels& kernels = device.kernels();
  const Tensor out = layer::statistic(unit_, {2, channels_});
  if (ranks() == 1) {
    kernels.batch_norm_statistics({.x = x, .mean = first(out), .variance = second(out)});
    return out;
  }
  Communicator& group = *unit_.group();
  const Tensor all = device.tensor({ranks(), 2, channels_}, MemoryKind::communication);
  const Tensor own = all.view(group.rank() * 2 * channels_, {2, channels_});
  kernels.batch_norm_statistics({.x = x, .mean = first(own), .variance = second(own)});
  group.all_gather(own, all)->wait();
  kernels.batch_norm_merge({.groups = all, .mean = first(out), .variance = second(out)});
  return out;
}

void BatchNorm::move_running(const Tensor& statistics, std::int64_t rows, const Pass& pass) const {
  if (pass.again) return;
  const auto micro_batches = static_cast<float>(pass.micro_batches);
  const auto n = static_cast<float>(rows);
  const float kept = pass.micro_batch == 0 ? 1 - momentum : 1;
  const auto move = [&](const Tensor& to, const Tensor& from, float scale) {
    unit_.device().kernels().blend({.in = from, .out = to, .in_scale = scale, .out_scale = kept});
  };
  move(first(running_), first(statistics), momentum / micro_batches);
  move(second(running_), second(statistics), momentum / micro_batches * (n / (n - 1)));
}

Tensor BatchNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass) {
  BatchNormForward op{.x = layer::rows(x, channels_),
                      .weight = unit_.value(weight_),
                      .bias = unit_.value(bias_),
                      .relu = relu_};
  if (residual) op.residual = layer::rows(residual, channels_);
  Tensor statistics = running_;
  if (pass.training) {
    const std::int64_t rows = op.x.shape()[0] * ranks();
    if (rows < 2)
      throw Error("unit {}: batch norm over one row; raise train.micro_batch or model.image",
                  unit_.name());
    statistics = batch_statistics(op.x);
    move_running(statistics, rows, pass);
  }
  op.mean = first(statistics);
  op.variance = second(statistics);
  op.y = layer::activation(unit_, op.x.shape());
  unit_.device().kernels().batch_norm_forward(op);
  if (pass.keep) {
    x_ = op.x;
    if (relu_) y_ = op.y;
    statistics_ = statistics;
    residual_ = static_cast<bool>(residual);
  }
  return op.y.reshaped(x.shape());
}

Tensor BatchNorm::backward(const Tensor& dy) {
  Device& device = unit_.device();
  const Kernels& kernels = device.kernels();
  const Tensor statistics = std::move(statistics_), x = std::move(x_), y = std::move(y_);
  const Tensor sums = device.tensor(
      {2, channels_}, ranks() == 1 ? MemoryKind::workspace : MemoryKind::communication);
  BatchNormBackward op{.dy = layer::rows(dy, channels_),
                       .x = x,
                       .y = y,
                       .mean = first(statistics),
                       .variance = second(statistics),
                       .weight = unit_.value(weight_),
                       .relu = relu_,
                       .sums = sums,
                       .rows = x.shape()[0] * ranks()};
  kernels.batch_norm_reduce({.dy = op.dy,
                             .x = op.x,
                             .y = op.y,
                             .mean = op.mean,
                             .variance = op.variance,
                             .relu = relu_,
                             .sums = sums});
  // The gradients are sums over this rank's rows: the scheme adds up those of the ranks.
  kernels.cast({.in = first(sums), .out = unit_.gradient(bias_)});
  kernels.cast({.in = second(sums), .out = unit_.gradient(weight_)});
  if (ranks() > 1) unit_.group()->all_reduce(sums)->wait();
  if (residual_) {
    op.dx = layer::workspace(unit_, x.shape());
    op.dresidual = op.dy;
  } else {
    op.dx = op.dy;
  }
  kernels.batch_norm_backward(op);
  return op.dx.reshaped(dy.shape());
}

}  // namespace ringside
