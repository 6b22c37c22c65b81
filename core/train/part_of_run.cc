#include "core/train/part_of_run.h"

#include <fmt/format.h>

#include <utility>

#include "core/models/model_part.h"
#include "core/plan/mesh.h"
#include "core/scheme/pipeline_group.h"

namespace ringside {
namespace {

int rank_with_losses(const PipelineGroup& pipeline) { return pipeline.schedule().ranks_of.back(); }

void show_elements(const Model& model, const StateRange& own, const StateVisitor& visit) {
  std::int64_t at = 0;
  for (const ModelStretch& stretch : in_whole_model(model, own.begin, own.values.count())) {
    StateRange range = own;
    range.begin = stretch.begin;
    range.values = own.values.range(at, stretch.count);
    at += stretch.count;
    visit(range);
  }
}

}  // namespace

const RankContext& whole_run(const RankContext& context) {
  return context.pipeline ? context.pipeline->whole() : context;
}

bool has_losses(const RankContext& context) {
  return !context.pipeline || context.pipeline->rank() == rank_with_losses(*context.pipeline);
}

int worker_with_losses(const RankContext& context, int data) {
  if (!context.pipeline) return data;
  return worker_at(whole_run(context).plan,
                   {.data = data, .pipeline = rank_with_losses(*context.pipeline)});
}

void sum_over_run(const RankContext& context, SyncScheme& scheme, std::span<double> values) {
  if (context.pipeline) context.pipeline->sum(values);
  scheme.sum(values);
}

StateVisitor in_whole_run(const RankContext& context, const Model& model, StateVisitor visit) {
  if (!context.pipeline) return visit;
  return
      [place = context.pipeline->rank(), &model, visit = std::move(visit)](const StateRange& own) {
        if (own.of_elements) return show_elements(model, own, visit);
        StateRange range = own;
        range.name = fmt::format("pipeline-{}/{}", place, own.name);
        range.of_options = true;
        visit(range);
      };
}

}  // namespace ringside
