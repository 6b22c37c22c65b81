#include "experiments/tools/calibrate/timed_training.h"

#include "core/comm/store.h"
#include "core/device/cpu/cpu_device.h"
#include "core/scheme/single.h"
#include "core/train/trainer.h"
#include "experiments/runner/registry/registry.h"
#include "experiments/runner/run/timed_steps.h"

namespace ringside::tools::calibrate {

std::vector<TimedOp> time_training(const RunPlan& plan, std::int64_t threads) {
  RunPlan repeated = plan;
  repeated.train.warmup = 2;
  repeated.train.steps = repeated.train.warmup + 9;
  TimedDevice device(make_cpu_device(static_cast<int>(threads)));
  Model model = make_model(plan.model, device);
  const Datasets data =
      runner::find_dataset(plan.data.kind).make(plan.data, plan.model, model.task);
  const Loader loader(*data.training, device, plan.train.global_batch, 1);
  MemoryStore store;
  Timeline timeline(device);
  const RankContext context{repeated, 0, device, store, timeline};
  const auto scheme = make_single(context, {});
  Trainer trainer(context, model, *scheme, loader, nullptr);
  runner::TimedSteps steps(device);
  trainer.run([&](const Progress& progress) {
    steps.end(progress.step > repeated.train.warmup);
    steps.begin();
  });
  return steps.take_medians();
}

}  // namespace ringside::tools::calibrate
