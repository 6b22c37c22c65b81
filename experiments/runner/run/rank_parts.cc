#include "experiments/runner/run/rank_parts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "core/interchange/weights.h"
#include "core/optim/optimizers.h"
#include "core/plan/slices.h"
#include "experiments/runner/registry/model_work.h"

namespace ringside::runner {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The number of tokens of the longest sample.
double most_tokens(const RunPlan& plan, const Model& model) {
  return static_cast<double>(model.task == Task::target_tokens ? model.input.count()
                                                               : plan.model.context);
}

/// The mean number of tokens of a sample of the measured steps before `end`; 0 for images. Padding
/// does not count.
double tokens_per_sample(const RunPlan& plan, const Model& model, const Loader& training,
                         std::int64_t end) {
  if (model.task == Task::image_class) return 0;
  const TrainConfig& train = plan.train;
  std::int64_t sum = 0;
  for (std::int64_t step = train.warmup; step < end; ++step)
    sum += training.targets({step, 0, train.global_batch});
  if (sum == 0) return most_tokens(plan, model);
  return static_cast<double>(sum) / static_cast<double>((end - train.warmup) * train.global_batch);
}

/// The step before which a run ended: before its last one if it was told to stop.
std::int64_t end_of(const RunPlan& plan, const RankRecord& record) {
  const auto trained = static_cast<std::int64_t>(record.steps.size()) +
                       (record.checkpoints ? record.checkpoints->resumed_after : 0);
  return trained == 0 ? plan.train.steps : std::min(plan.train.steps, trained);
}

/// `tokens` is the mean number of tokens of a sample, 0 for images.
StepShape step_shape(const RunPlan& plan, const Model& model, double tokens) {
  // Samples that differ in length can be sent without padding.
  const double filled = tokens > 0 ? tokens / most_tokens(plan, model) : 1;
  const auto element = static_cast<std::int64_t>(size_of(parameter_dtype(plan.train)));
  const auto reduced = static_cast<std::int64_t>(size_of(reduce_dtype(plan.train)));
  std::int64_t lent = 0;
  for (const auto& unit : model.units)
    if (unit->lender()) lent += unit->lender()->layout().count();
  std::vector<Shape> tensors;
  for (const auto& unit : model.units)
    for (const Parameter& parameter : unit->layout().parameters())
      tensors.push_back(parameter.shape);
  std::int64_t others = 0;
  for (int worker = 1; worker < plan.world; ++worker)
    others = std::max(others, samples_of(plan, worker));
  return {.world = plan.world,
          .first_step = plan.train.warmup,
          .steps = plan.train.steps,
          .servers = plan.servers,
          .micro_batches = plan.train.accumulation,
          .reductions = plan.train.reduce == Reduce::every ? plan.train.accumulation : 1,
          .parameters = model.parameter_count(),
          .moments = values_of_each(plan.optimizer),
          .parameter_bytes = element * model.parameter_count(),
          .gradient_bytes = reduced * model.parameter_count(),
          .lent_bytes = element * lent,
          .tensors = std::move(tensors),
          .first_samples = samples_of(plan, 0),
          .other_samples = others,
          .samples = plan.train.global_batch,
          .input_bytes = std::llround(filled * static_cast<double>(model.input_bytes())),
          .logit_bytes =
              std::llround(filled * static_cast<double>(element * model.logits_per_sample()))};
}

}  // namespace

std::shared_ptr<const InitialValues> initial_weights(const RunPlan& plan, const Model& model) {
  if (plan.train.initial_weights.empty()) return nullptr;
  auto values = open_weights(plan.train.initial_weights, model, plan.model);
  for (const auto& unit : model.units) values->write_statistics(*unit);
  return values;
}

void note_run(RankRecord& record, const RunPlan& plan, const SchemeInfo& scheme, const Model& model,
              const Loader& training) {
  record.host = host_name();
  record.tokens_per_sample = tokens_per_sample(plan, model, training, end_of(plan, record));
  if (record.rank == 0)
    record.work =
        work_of_sample(plan, model.task == Task::image_class ? 0 : most_tokens(plan, model));
  if (plan.defines == 0)  // a definition is one rank, and sends nothing
    record.minimum_bytes_per_step =
        scheme.minimum_bytes(plan.options, step_shape(plan, model, record.tokens_per_sample));
}

}  // namespace ringside::runner
