#include "experiments/runner/registry/model_borders.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "core/data/loader.h"
#include "core/device/counting_device.h"
#include "core/models/model_part.h"
#include "core/pipeline/table_places.h"
#include "core/pipeline/values.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// A model that runs forward and backward over one micro-batch, and what there is between its units
/// meanwhile.
class Traced {
 public:
  explicit Traced(const RunPlan& plan)
      : model_(make_model(plan.model, device_)), side_(model_.edges.size()) {
    for (const auto& unit : model_.units) {
      const Shape whole = {unit->layout().count()};
      unit->bind(device_.tensor(whole, MemoryKind::parameter, parameter_dtype(plan.train)),
                 device_.tensor(whole, MemoryKind::gradient, parameter_dtype(plan.train)));
    }
    saved_.assign(model_.units.size(), Saved(side_));
    forward(plan);
    backward();
  }

  const Model& model() const { return model_; }
  /// What crosses a border between unit `before` and the next one.
  std::vector<BorderValue> border(std::size_t before) const { return behind_[before]; }

 private:
  void forward(const RunPlan& plan) {
    const Pass pass{.keep_attention = plan.train.recompute != Recompute::attention};
    x_ = device_.tensor(stacked(plan.train.micro_batch, model_.input), MemoryKind::data,
                        input_dtype(model_.task));
    for (std::size_t u = 0; u < model_.units.size(); ++u) {
      x_ = model_.units[u]->forward(x_, pass, saved_[u]);
      std::vector<BorderValue>& border = behind_.emplace_back();
      border.push_back({.shape = x_.shape(), .dtype = x_.dtype()});
      for (std::size_t e = 0; e < model_.edges.size(); ++e)
        if (cuts(e, u)) {
          const Tensor& value = side_[e].value;
          border.push_back({.edge = e, .shape = value.shape(), .dtype = value.dtype()});
        }
    }
  }
  void backward() {
    for (std::size_t u = model_.units.size(); u-- > 1;) {
      x_ = model_.units[u]->backward(x_, saved_[u]);
      for (BorderValue& value : behind_[u - 1]) {
        const Tensor& gradient =
            value.edge == BorderValue::output ? x_ : side_[value.edge].gradient;
        if (!gradient) continue;
        value.has_gradient = true;
        value.gradient_shape = gradient.shape();
        value.gradient_dtype = gradient.dtype();
      }
    }
  }
  /// Whether a border behind the unit cuts the edge. Tables go another way.
  bool cuts(std::size_t edge, std::size_t unit) const {
    const Edge& of = model_.edges[edge];
    return of.kind != Edge::Kind::table && of.from <= unit && unit < of.last;
  }

  CountingDevice device_;
  Model model_;
  SideValues side_;
  std::vector<Saved> saved_;
  std::vector<std::vector<BorderValue>> behind_;
  Tensor x_;
};

/// The stage that has the unit.
int stage_with(const std::vector<UnitRange>& stages, std::size_t unit) {
  const auto after = std::ranges::upper_bound(stages, unit, {}, &UnitRange::first);
  return static_cast<int>(after - stages.begin()) - 1;
}

std::vector<BorderTable> tables_between(const std::vector<UnitRange>& stages, const Model& model) {
  std::vector<BorderTable> out;
  for (std::size_t e = 0; e < model.edges.size(); ++e) {
    const Edge& edge = model.edges[e];
    const int owner = stage_with(stages, edge.from), reader = stage_with(stages, edge.last);
    if (edge.kind != Edge::Kind::table || owner == reader) continue;
    out.push_back({.edge = e,
                   .unit = edge.from,
                   .parameter = edge.parameter,
                   .stages = {owner, reader},
                   .shape = model.units[edge.from]->layout().parameters()[edge.parameter].shape});
  }
  return out;
}

std::int64_t bytes_of(const std::vector<BorderValue>& border, bool backward) {
  return std::accumulate(
      border.begin(), border.end(), std::int64_t{0},
      [&](std::int64_t sum, const BorderValue& value) {
        if (!backward)
          return sum + value.shape.count() * static_cast<std::int64_t>(size_of(value.dtype));
        if (!value.has_gradient) return sum;
        return sum + value.gradient_shape.count() *
                         static_cast<std::int64_t>(size_of(value.gradient_dtype));
      });
}

}  // namespace

Borders borders_of(const RunPlan& plan) {
  const Traced traced(plan);
  const std::vector<UnitRange> stages = stages_of(plan, traced.model().units.size());
  Borders out;
  for (const UnitRange& stage : stages)
    if (stage.last < traced.model().units.size())
      out.behind.push_back(traced.border(stage.last - 1));
  out.tables = tables_between(stages, traced.model());
  return out;
}

std::vector<std::size_t> units_behind_tables(const pipeline::Schedule& schedule,
                                             const std::vector<BorderTable>& tables) {
  std::vector<std::size_t> out;
  for (const BorderTable& table : tables)
    if (std::ranges::any_of(table_places(schedule, table.stages), &pipeline::TablePlace::is_late))
      out.push_back(table.unit + 1);
  std::ranges::sort(out);
  return out;
}

std::vector<std::int64_t> gradient_borders(const RunPlan& plan) {
  CountingDevice device;
  const Model model = make_model(plan.model, device);
  const std::vector<UnitRange> stages = stages_of(plan, model.units.size());
  std::set<std::int64_t> out;
  for (const UnitRange& stage : stages) out.insert(static_cast<std::int64_t>(stage.first));
  for (const std::size_t unit :
       units_behind_tables(schedule_of(plan), tables_between(stages, model)))
    out.insert(static_cast<std::int64_t>(unit));
  out.erase(0);
  return {out.begin(), out.end()};
}

double border_bytes(const RunPlan& plan, const pipeline::Schedule& schedule, const Borders& borders,
                    int rank) {
  std::int64_t bytes = 0;
  for (const int stage : schedule.stages_of(rank)) {
    const auto s = static_cast<std::size_t>(stage);
    if (s < borders.size() && schedule.ranks_of[s + 1] != rank)
      bytes += bytes_of(borders[s], false);
    if (s > 0 && schedule.ranks_of[s - 1] != rank) bytes += bytes_of(borders[s - 1], true);
  }
  bytes *= plan.train.accumulation;
  const auto element = static_cast<std::int64_t>(size_of(parameter_dtype(plan.train)));
  for (const BorderTable& table : borders.tables) {
    const int owner = rank_of(schedule, table.stages.owner),
              reader = rank_of(schedule, table.stages.reader);
    if (owner == reader) continue;
    if (rank == owner) bytes += element * table.shape.count();
    if (rank == reader) bytes += element * table.shape.count() * plan.train.accumulation;
  }
  return static_cast<double>(bytes);
}

}  // namespace ringside::runner
