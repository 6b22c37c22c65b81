#include "core/nn/batch_norm.h"

#include <vector>

#include "core/base/error.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

constexpr float momentum = 0.1f;

}  // namespace

BatchNorm::BatchNorm(Unit& unit, const std::string& name, std::int64_t channels, bool relu,
                     float epsilon)
    : unit_(unit),
      channels_(channels),
      relu_(relu),
      epsilon_(epsilon),
      weight_(unit.declare().add(name + ".weight", {channels}, layer::ones)),
      bias_(unit.declare().add(name + ".bias", {channels}, layer::zeros)),
      kept_(unit) {
  const auto declare_statistic = [&](const std::string& statistic, float start) {
    const Tensor values = unit.device().tensor({channels}, MemoryKind::parameter);
    const std::vector<float> starts(static_cast<std::size_t>(channels), start);
    unit.device().write(values, std::as_bytes(std::span(starts)));
    return unit.declare(Unit::Statistic{name + statistic, values, {}});
  };
  running_mean_ = declare_statistic(".running_mean", 0);
  running_variance_ = declare_statistic(".running_var", 1);
}

const Tensor& BatchNorm::running(std::size_t statistic, std::int64_t micro_batch) {
  Unit::Statistic& all = unit_.statistic(statistic);
  if (micro_batch == 0 || all.later.empty()) return all.values;
  return all.later[static_cast<std::size_t>(micro_batch - 1)];
}

Tensor BatchNorm::batch_statistics(const Tensor& x, std::int64_t ranks) const {
  Device& device = unit_.device();
  const Kernels& kernels = device.kernels();
  const Tensor out = layer::statistic(unit_, {2, channels_});
  Communicator* const group = unit_.group();
  const std::int64_t together = group ? group->size() : ranks;
  if (together == 1) {
    kernels.batch_norm_statistics({.x = x, .mean = first(out), .variance = second(out)});
    return out;
  }
  const Tensor all = device.tensor({together, 2, channels_}, MemoryKind::communication);
  Tensor own;
  for (std::int64_t r = 0; r < ranks; ++r) {
    own = all.view((group ? group->rank() : r) * 2 * channels_, {2, channels_});
    kernels.batch_norm_statistics(
        {.x = layer::of_rank(x, r, ranks), .mean = first(own), .variance = second(own)});
  }
  if (group) group->complete([&] { return group->all_gather(own, all); });
  kernels.batch_norm_merge({.groups = all, .mean = first(out), .variance = second(out)});
  return out;
}

void BatchNorm::move_running(const Tensor& statistics, std::int64_t rows, const Pass& pass) {
  if (pass.again) return;
  make_running(pass.micro_batches);
  const auto n = static_cast<float>(rows);
  const auto move = [&](std::size_t statistic, const Tensor& from, float scale) {
    for (std::int64_t r = 0; r < pass.ranks; ++r)
      unit_.device().kernels().blend({.in = from,
                                      .out = running(statistic, pass.micro_batch + r),
                                      .in_scale = scale,
                                      .out_scale = 1 - momentum});
  };
  move(running_mean_, first(statistics), momentum);
  move(running_variance_, second(statistics), momentum * (n / (n - 1)));
}

void BatchNorm::make_running(std::int64_t micro_batches) {
  for (const std::size_t index : {running_mean_, running_variance_}) {
    Unit::Statistic& statistic = unit_.statistic(index);
    while (static_cast<std::int64_t>(statistic.later.size()) + 1 < micro_batches) {
      statistic.later.push_back(unit_.device().tensor({channels_}, MemoryKind::parameter));
      unit_.device().kernels().copy({.in = statistic.values, .out = statistic.later.back()});
    }
  }
}

Tensor BatchNorm::forward(const Tensor& x, const Tensor& residual, const Pass& pass, Saved& saved) {
  BatchNormForward op{.x = layer::rows(x, channels_),
                      .weight = unit_.value(weight_),
                      .bias = unit_.value(bias_),
                      .epsilon = epsilon_,
                      .relu = relu_};
  if (residual) op.residual = layer::rows(residual, channels_);
  if (!pass.training) {
    op.mean = running(running_mean_, pass.micro_batch);
    op.variance = running(running_variance_, pass.micro_batch);
  } else {
    const std::int64_t rows = op.x.shape()[0] * group_size();
    if (rows < 2)
      throw Error(
          "unit {}: batch norm needs more than one row; raise train.micro_batch or model.image",
          unit_.name());
    const Tensor statistics = batch_statistics(op.x, pass.ranks);
    move_running(statistics, rows, pass);
    op.mean = first(statistics);
    op.variance = second(statistics);
  }
  op.y = layer::activation(unit_, op.x.shape());
  unit_.device().kernels().batch_norm_forward(op);
  if (pass.keep)
    kept_.keep(saved, {op.x, relu_ ? op.y : Tensor{}, op.mean, op.variance,
                       static_cast<bool>(residual), pass.ranks});
  return op.y.reshaped(x.shape());
}

Tensor BatchNorm::backward(const Tensor& dy, Saved& saved) {
  Device& device = unit_.device();
  const Kernels& kernels = device.kernels();
  const Kept kept = kept_.take(saved);
  Communicator* const group = unit_.group();
  const auto new_sums = [&] {
    return device.tensor({2, channels_}, group ? MemoryKind::communication : MemoryKind::workspace);
  };
  const Tensor sums = new_sums();
  BatchNormBackward op{.dy = layer::rows(dy, channels_),
                       .x = kept.x,
                       .y = kept.y,
                       .mean = kept.mean,
                       .variance = kept.variance,
                       .weight = unit_.value(weight_),
                       .epsilon = epsilon_,
                       .relu = relu_,
                       .sums = sums,
                       .rows = kept.x.shape()[0] * group_size()};
  for (std::int64_t r = 0; r < kept.ranks; ++r) {
    const Tensor own = r == 0 ? sums : new_sums();
    kernels.batch_norm_reduce({.dy = layer::of_rank(op.dy, r, kept.ranks),
                               .x = layer::of_rank(op.x, r, kept.ranks),
                               .y = layer::of_rank(op.y, r, kept.ranks),
                               .mean = op.mean,
                               .variance = op.variance,
                               .epsilon = epsilon_,
                               .relu = relu_,
                               .sums = own});
    // These gradients are sums over one rank's rows; the scheme adds those of all ranks.
    kernels.cast({.in = first(own), .out = layer::gradient(unit_, bias_, saved, r)});
    kernels.cast({.in = second(own), .out = layer::gradient(unit_, weight_, saved, r)});
    if (r > 0) kernels.add({.in = own, .out = sums});
  }
  if (group) group->complete([&] { return group->all_reduce(sums); });
  if (kept.residual) {
    op.dx = layer::workspace(unit_, kept.x.shape());
    op.dresidual = op.dy;
  } else {
    op.dx = op.dy;
  }
  kernels.batch_norm_backward(op);
  return op.dx.reshaped(dy.shape());
}

}  // namespace ringside
