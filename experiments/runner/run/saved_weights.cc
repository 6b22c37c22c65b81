#include "experiments/runner/run/saved_weights.h"

#include <optional>

#include "core/models/models.h"
#include "core/plan/train_config.h"
#include "core/train/part_of_run.h"
#include "core/train/whole_model.h"

namespace ringside::runner {

SavedWeights::SavedWeights(const RunPlan& plan, const Model& model, Device& device)
    : plan_(plan),
      model_(model),
      device_(device),
      file_(plan.save, model, plan.model, parameter_dtype(plan.train)) {}

void SavedWeights::add(std::size_t unit, std::int64_t begin, const Tensor& values) {
  const std::int64_t count = model_.units[unit]->layout().count();
  if (values.count() == count) return file_.add(*model_.units[unit], values);
  if (begin == 0) unit_ = device_.tensor({count}, MemoryKind::workspace, values.dtype());
  device_.kernels().copy({.in = values, .out = unit_.range(begin, values.count())});
  if (begin + values.count() < count) return;
  file_.add(*model_.units[unit], unit_);
  unit_ = {};
}

void save_weights(const RankContext& context, const Model& model, SyncScheme& scheme) {
  const RankContext& run = whole_run(context);
  if (run.plan.save.empty()) return;
  const bool writes = run.self().worker == 0;
  std::optional<Model> whole;  // of a rank with a part: for its layout and running statistics
  if (writes && model.part) whole = make_model(run.plan.model, context.device);
  if (model.part) gather_statistics(context, model, whole ? &*whole : nullptr);
  std::optional<SavedWeights> file;
  if (writes) file.emplace(run.plan, whole ? *whole : model, context.device);
  visit_whole_model(context, model, scheme,
                    [&](int replica, std::size_t unit, std::int64_t begin, const Tensor& values) {
                      if (file && replica == 0) file->add(unit, begin, values);
                    });
  if (file) file->finish();
}

}  // namespace ringside::runner
