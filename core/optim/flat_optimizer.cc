#include "core/optim/flat_optimizer.h"

#include <algorithm>

#include "core/num/exact_sum.h"

namespace ringside {
namespace {

/// The master values; empty if the parameters are their own master values.
Tensor masters(Device& device, const Tensor& parameters) {
  if (parameters.dtype() == DType::f32) return {};
  Tensor values = device.tensor({parameters.count()}, MemoryKind::optimizer);
  device.kernels().cast({.in = parameters, .out = values});
  return values;
}

std::vector<double> sum_of_squares(Device& device, const Tensor& values) {
  std::vector<double> sum(ExactSum::digits);
  const Tensor out = device.tensor({ExactSum::digits}, MemoryKind::workspace, DType::f64);
  device.kernels().sum_of_squares({.in = values, .out = out});
  device.read(out, std::as_writable_bytes(std::span(sum)));
  return sum;
}

}  // namespace

FlatOptimizer::FlatOptimizer(const OptimizerConfig& config, const RunSize& run, Device& device,
                             const Tensor& parameters, ParameterMap map)
    : config_(config),
      run_(run),
      device_(device),
      map_(std::move(map)),
      skips_(run.skips || parameters.dtype() == DType::f16),
      master_(masters(device, parameters)) {}

std::vector<double> FlatOptimizer::measure(int round, const ParameterRange& range,
                                           const StepInfo& info) {
  if (round >= norm_rounds()) return measure_own(range, info);
  return sum_of_squares(device_, range.gradients);
}

bool FlatOptimizer::settle(int round, std::span<const double> totals, const StepInfo& info) {
  if (round >= norm_rounds()) {
    settle_own(totals);
    return true;
  }
  if (overflowed(skips_, round, totals)) {
    ++skipped_;
    return false;
  }
  clip_factor_ = clip_factor(config_, totals, static_cast<double>(info.loss_scale));
  return true;
}

std::vector<OptimizerState> FlatOptimizer::state() const {
  std::vector<OptimizerState> all = own_state();
  all.insert(all.begin(), {master_values, master_});
  std::erase_if(all, [](const OptimizerState& one) { return !one.values; });
  return all;
}

void FlatOptimizer::restored(std::span<const ParameterRange> ranges, std::int64_t skipped) {
  skipped_ = skipped;
  if (!master_) return;
  for (const ParameterRange& range : ranges)
    device_.kernels().cast({.in = master(range), .out = range.parameters});
}

void FlatOptimizer::each_alike(
    const ParameterRange& range, const StepInfo& info,
    const std::function<void(const ParameterRange&, const Scalars&)>& update) const {
  if (config_.decay == Decay::all || config_.weight_decay == 0)
    return update(range, scalars(info, static_cast<float>(config_.weight_decay)));
  const std::vector<Stretch> stretches = stretches_in(range);
  for (std::size_t i = 0; i < stretches.size();) {
    Stretch alike = stretches[i++];
    for (; i < stretches.size() && stretches[i].matrix == alike.matrix &&
           stretches[i].begin == alike.begin + alike.count;
         ++i)
      alike.count += stretches[i].count;
    update(part(range, alike), scalars(info, decay_of(alike)));
  }
}

std::vector<ParameterMap::Stretch> FlatOptimizer::stretches_in(const ParameterRange& range) const {
  const std::int64_t end = range.begin + range.parameters.count();
  std::vector<Stretch> out;
  auto next = std::partition_point(
      map_.stretches.begin(), map_.stretches.end(),
      [&](const Stretch& stretch) { return stretch.begin + stretch.count <= range.begin; });
  for (; next != map_.stretches.end() && next->begin < end; ++next) {
    Stretch in = *next;
    in.begin = std::max(next->begin, range.begin);
    in.count = std::min(next->begin + next->count, end) - in.begin;
    out.push_back(in);
  }
  return out;
}

float FlatOptimizer::decay_of(const Stretch& stretch) const {
  return config_.decay == Decay::all || stretch.matrix ? static_cast<float>(config_.weight_decay)
                                                       : 0.0f;
}

FlatOptimizer::Scalars FlatOptimizer::scalars(const StepInfo& info, float weight_decay) const {
  return {.lr = static_cast<float>(info.lr_factor * learning_rate(config_, info.step, run_)),
          .weight_decay = weight_decay,
          .gradient_scale = static_cast<float>(clip_factor_ / static_cast<double>(info.loss_scale)),
          .step = info.step + 1 - skipped_};
}

ParameterRange FlatOptimizer::part(const ParameterRange& range, const Stretch& stretch) {
  const std::int64_t begin = stretch.begin - range.begin;
  return {stretch.begin, range.parameters.range(begin, stretch.count),
          range.gradients.range(begin, stretch.count)};
}

Tensor FlatOptimizer::of(const Tensor& state, const ParameterRange& range) {
  return state ? state.range(range.begin, range.parameters.count()) : Tensor{};
}

Tensor FlatOptimizer::zeros(Device& device, const Tensor& parameters) {
  Tensor state = device.tensor({parameters.count()}, MemoryKind::optimizer);
  device.kernels().fill({.out = state, .value = 0});
  return state;
}

}  // namespace ringside
