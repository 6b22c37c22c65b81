#include "experiments/calibrate/timed_training.h"

#include <algorithm>

#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "core/observe/row.h"
#include "core/scheme/single.h"
#include "core/train/trainer.h"
#include "experiments/calibrate/at_once.h"
#include "experiments/registry/registry.h"

namespace ringside {
namespace {

/// The times of one operation in all steps.
template <class Member>
double median_over(const std::vector<std::vector<TimedOp>>& steps, std::size_t op, Member member) {
  std::vector<double> times;
  for (const auto& step : steps) times.push_back(step[op].*member);
  return quantiles(std::move(times)).median;
}

/// Trains by itself. Waits at `together` before the first step that is timed: ranks that begin
/// every step together would all use the memory at the same moments, as ranks of a run do not.
TimedStep train(const RunPlan& plan, std::int64_t threads, std::barrier<>& together) {
  TimedDevice device(make_cpu_device(static_cast<int>(threads)));
  Model model = find_model(plan.model.kind).make(plan.model, device);
  const Datasets data = find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  const Loader loader(*data.training, device, plan.train.global_batch, 1);
  MemoryStore store;
  Timeline timeline(device);
  const RankContext context{plan, 0, device, store, timeline};
  const auto scheme = make_single(context, {});
  Trainer trainer(context, model, *scheme, loader, nullptr);

  std::vector<std::vector<TimedOp>> steps;
  TimedStep out;
  trainer.run([&](const Progress& progress) {
    auto ops = device.take_ops();
    if (progress.step > plan.train.warmup) {
      steps.push_back(std::move(ops));
      out.seconds.push_back(progress.seconds);
    }
    if (progress.step == plan.train.warmup) together.arrive_and_wait();
    device.pause();
  });
  leave_out_short(steps, out.seconds);
  out.ops = steps.front();
  for (std::size_t i = 0; i < out.ops.size(); ++i) {
    out.ops[i].seconds = median_over(steps, i, &TimedOp::seconds);
    out.ops[i].before = median_over(steps, i, &TimedOp::before);
  }
  return out;
}

}  // namespace

void leave_out_short(std::vector<std::vector<TimedOp>>& steps, std::vector<double>& seconds) {
  std::size_t whole = 0;
  for (const auto& step : steps) whole = std::max(whole, step.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].size() < whole) continue;
    std::swap(steps[kept], steps[i]);
    seconds[kept++] = seconds[i];
  }
  steps.resize(kept);
  seconds.resize(kept);
}

std::vector<TimedStep> time_training(const RunPlan& plan, std::int64_t threads,
                                     const Repetition& repetition) {
  RunPlan repeated = plan;
  repeated.train.warmup = repetition.warmup;
  repeated.train.steps = repetition.warmup + repetition.steps;
  std::vector<TimedStep> out(static_cast<std::size_t>(repetition.ranks));
  at_once(repetition.ranks, [&](int rank, std::barrier<>& together) {
    out[static_cast<std::size_t>(rank)] = train(repeated, threads, together);
  });
  return out;
}

}  // namespace ringside
