#include "experiments/runner/report/pipeline_summary.h"

#include <algorithm>
#include <cmath>

#include "core/pipeline/activations.h"
#include "core/pipeline/makers.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/model_borders.h"
#include "experiments/runner/registry/stage_activations.h"
#include "experiments/runner/report/interval.h"

namespace ringside::runner {
namespace {

using pipeline::Schedule;

/// Null for a schedule of a file.
const pipeline::MakerInfo* maker_of(const RunPlan& plan) {
  const std::string& name = plan.pipeline.schedule;
  return is_schedule_file(name) ? nullptr : &pipeline::find_maker(name);
}

int stages_of_a_rank(const Schedule& schedule) { return schedule.stages() / schedule.ranks(); }

/// The mean step of an average worker, which the parts of the time add up to.
double mean_step_ms(const RunRecord& row) {
  const auto& ms = row.time_ms;
  const double sum = ms.compute + ms.exposed + ms.optimizer + ms.data + ms.encoding + ms.idle;
  return sum > 0 ? sum : row.step_ms.median;
}

/// Calls `visit` with the place and the record of every worker of the pipeline.
template <class Visit>
void each_worker(const RunRecord& row, const Visit& visit) {
  for (std::size_t r = 0; r < row.ranks.size() && r < row.plan.ranks.size(); ++r)
    if (row.ranks[r].pipeline && row.plan.ranks[r].worker >= 0)
      visit(mesh_place(row.plan, row.plan.ranks[r].worker).pipeline, row.ranks[r]);
}

/// The median over the repeats of the mean of a figure over workers; `figure` returns nothing for
/// workers that have no such figure.
template <class Figure>
double figure_of(const CaseRecords& rows, const Figure& figure) {
  std::vector<double> means;
  for (const RunRecord* row : rows) {
    double sum = 0;
    int count = 0;
    each_worker(*row, [&](int place, const RankRecord& rank) {
      const std::optional<double> value = figure(place, rank);
      sum += value.value_or(0);
      count += value.has_value();
    });
    if (count > 0) means.push_back(sum / count);
  }
  return means.empty() ? 0 : median(std::move(means));
}

StageSummary stage_of(const CaseRecords& rows, int stage, int place) {
  const auto time = [&](double StageRecord::*figure) {
    return figure_of(rows, [&](int, const RankRecord& rank) -> std::optional<double> {
      for (const StageRecord& one : rank.pipeline->stages)
        if (one.stage == stage) return one.*figure;
      return {};
    });
  };
  StageSummary out{.stage = stage,
                   .rank = place,
                   .forward_ms = time(&StageRecord::forward_ms),
                   .backward_ms = time(&StageRecord::backward_ms),
                   .input_gradient_ms = time(&StageRecord::input_gradient_ms),
                   .weight_gradient_ms = time(&StageRecord::weight_gradient_ms)};
  for (const RunRecord* row : rows)
    each_worker(*row, [&](int, const RankRecord& rank) {
      for (const StageRecord& one : rank.pipeline->stages)
        if (one.stage == stage) out.under_way = std::max(out.under_way, one.most_under_way);
    });
  return out;
}

std::vector<StageSummary> stages_of_case(const CaseRecords& rows) {
  std::vector<StageSummary> out;
  each_worker(*rows[0], [&](int place, const RankRecord& rank) {
    for (const StageRecord& one : rank.pipeline->stages)
      if (std::ranges::none_of(out, [&](const auto& known) { return known.stage == one.stage; }))
        out.push_back(stage_of(rows, static_cast<int>(one.stage), place));
  });
  std::ranges::sort(out, {}, &StageSummary::stage);
  return out;
}

PipelinePlace place_of(const CaseRecords& rows, int place, double step_ms) {
  PipelinePlace out{.rank = place};
  out.waiting_ms = figure_of(rows, [&](int at, const RankRecord& rank) {
    return at == place ? std::optional(rank.pipeline->waiting_ms) : std::nullopt;
  });
  if (step_ms > 0) out.bubble = out.waiting_ms / step_ms;
  for (const RunRecord* row : rows)
    each_worker(*row, [&](int at, const RankRecord& rank) {
      if (at == place)
        out.activation =
            std::max(out.activation, static_cast<double>(rank.pipeline->most_activations));
    });
  return out;
}

/// Seconds; B counts as two halves that take equally long.
pipeline::StageTimes times_of_stage(const StageSummary& stage) {
  return {1e-3 * stage.forward_ms, 1e-3 * (stage.input_gradient_ms + stage.backward_ms / 2),
          1e-3 * (stage.weight_gradient_ms + stage.backward_ms / 2)};
}

pipeline::StageTimes mean_times(const PipelineSummary& summary) {
  pipeline::StageTimes out{0, 0, 0};
  const auto count = static_cast<double>(summary.stages.size());
  for (const StageSummary& stage : summary.stages) {
    const pipeline::StageTimes times = times_of_stage(stage);
    out.f += times.f / count, out.b += times.b / count, out.w += times.w / count;
  }
  return out;
}

double sum_of(const pipeline::StageTimes& times) { return times.f + times.b + times.w; }

/// Whether workers told the times of all stages, and those were measured.
bool is_measured(const PipelineSummary& summary, const Schedule& schedule) {
  return schedule.stages() == static_cast<int>(summary.stages.size()) &&
         sum_of(mean_times(summary)) > 0;
}

/// How long an average rank waits until the last one has ended.
double waiting_in(const Schedule& schedule, const pipeline::ScheduleTimes& times) {
  const auto simulated = simulate(schedule, times);
  double idle = 0;
  for (const pipeline::RankTimes& rank : simulated.ranks) idle += simulated.whole_s - rank.busy;
  return 1e3 * idle / schedule.ranks();
}

pipeline::ScheduleTimes measured_times(const PipelineSummary& summary) {
  pipeline::ScheduleTimes out;
  for (const StageSummary& stage : summary.stages) out.stages.push_back(times_of_stage(stage));
  return out;
}

/// Divides the waiting into its causes; each gets no more than those before it have left.
void divide_waiting(PipelineSummary& out, const Schedule& schedule) {
  const double balanced = waiting_in(schedule, equal_times(schedule, mean_times(out)));
  const double uneven = waiting_in(schedule, measured_times(out)) - balanced;
  out.bubble_ms = std::min(balanced, out.waiting_ms);
  out.uneven_ms = std::clamp(uneven, 0.0, out.waiting_ms - out.bubble_ms);
  out.sends_ms = out.waiting_ms - out.bubble_ms - out.uneven_ms;
}

void add_bubble_formula(PipelineSummary& out, const Schedule& schedule,
                        const pipeline::MakerInfo& maker) {
  const int chunks = stages_of_a_rank(schedule);
  const pipeline::StageTimes mean = mean_times(out);
  const double bubble =
      maker.bubble(schedule.ranks(), chunks, schedule.micro_batches, mean.f, mean.b, mean.w);
  const double compute_s = static_cast<double>(schedule.micro_batches) * chunks * sum_of(mean);
  if (std::isfinite(bubble) && out.step_ms > 0)
    out.bubble_by_formula = 1e3 * bubble * compute_s / out.step_ms;
}

void add_in_flight(PipelineSummary& out, const Schedule& schedule,
                   const pipeline::MakerInfo* maker) {
  const auto held = held_micro_batches(schedule);
  for (StageSummary& stage : out.stages)
    stage.in_flight = maker ? maker->in_flight(schedule.ranks(), stages_of_a_rank(schedule),
                                               schedule.micro_batches, stage.stage)
                            : held.at(static_cast<std::size_t>(stage.stage)).until_weight_gradient;
}

void add_activations(PipelineSummary& out, const RunPlan& plan, const Schedule& schedule) {
  const auto stages = activations_of_stages(plan);
  for (PipelinePlace& place : out.places)
    place.activation_by_formula = most_activations(schedule, place.rank, stages);
}

/// Of the busiest rank of each dimension, in the repeat with the smallest seed.
void add_bytes(PipelineSummary& out, const RunRecord& row, const Schedule& schedule) {
  const Borders borders = borders_of(row.plan);
  each_worker(row, [&](int place, const RankRecord& rank) {
    const double least = border_bytes(row.plan, schedule, borders, place);
    const DimensionBytes along{rank.pipeline->bytes_sent_per_step, least};
    const DimensionBytes data{std::max(0.0, rank.bytes_sent_per_step - along.sent),
                              std::max(0.0, rank.minimum_bytes_per_step - least)};
    if (along.sent >= out.pipeline.sent) out.pipeline = along;
    if (data.sent >= out.data.sent) out.data = data;
  });
}

double imbalance_of(const std::vector<StageSummary>& stages) {
  double sum = 0, most = 0;
  for (const StageSummary& stage : stages) {
    sum += stage.compute_ms();
    most = std::max(most, stage.compute_ms());
  }
  return sum > 0 ? most * static_cast<double>(stages.size()) / sum : 1;
}

}  // namespace

Fields fields_of(StageSummary& stage) {
  return {{"stage", &stage.stage},
          {"rank", &stage.rank},
          {"forward_ms", &stage.forward_ms},
          {"backward_ms", &stage.backward_ms},
          {"input_gradient_ms", &stage.input_gradient_ms},
          {"weight_gradient_ms", &stage.weight_gradient_ms},
          {"under_way", &stage.under_way},
          {"in_flight", &stage.in_flight}};
}

Fields fields_of(PipelinePlace& place) {
  return {{"rank", &place.rank},
          {"waiting_ms", &place.waiting_ms},
          {"bubble", &place.bubble},
          {"activation", &place.activation},
          {"activation_by_formula", &place.activation_by_formula}};
}

Fields fields_of(DimensionBytes& bytes) {
  return {{"sent", &bytes.sent}, {"minimum", &bytes.minimum}};
}

Fields fields_of(PipelineSummary& summary) {
  return {{"schedule", &summary.schedule},
          {"micro_batches", &summary.micro_batches},
          {"step_ms", &summary.step_ms},
          {"waiting_ms", &summary.waiting_ms},
          {"bubble", &summary.bubble},
          {"bubble_by_formula", &summary.bubble_by_formula},
          {"imbalance", &summary.imbalance},
          {"bubble_ms", &summary.bubble_ms},
          {"uneven_ms", &summary.uneven_ms},
          {"sends_ms", &summary.sends_ms},
          {"bytes_data", fields_of(summary.data)},
          {"bytes_pipeline", fields_of(summary.pipeline)},
          {"put_right", &summary.put_right},
          {"stages", Structs(&summary.stages)},
          {"places", Structs(&summary.places)}};
}

std::optional<PipelineSummary> pipeline_of(const CaseRecords& finished) {
  const RunPlan& plan = finished[0]->plan;
  PipelineSummary out{
      .schedule = plan.pipeline.schedule,
      .micro_batches = plan.train.accumulation,
      .step_ms = median_of(finished, mean_step_ms),
      .stages = has_pipeline(plan) ? stages_of_case(finished) : std::vector<StageSummary>{}};
  if (out.stages.empty()) return {};
  out.waiting_ms = figure_of(finished, [](int, const RankRecord& rank) {
    return std::optional(rank.pipeline->waiting_ms);
  });
  if (out.step_ms > 0) out.bubble = out.waiting_ms / out.step_ms;
  out.imbalance = imbalance_of(out.stages);
  for (const RunRecord* row : finished)
    each_worker(*row, [&](int, const RankRecord& rank) {
      out.put_right = std::max(out.put_right, rank.pipeline->put_right);
    });
  for (int place = 0; place < static_cast<int>(plan.mesh.pipeline); ++place)
    out.places.push_back(place_of(finished, place, out.step_ms));
  const Schedule schedule = schedule_of(plan);
  const pipeline::MakerInfo* maker = maker_of(plan);
  add_in_flight(out, schedule, maker);
  add_activations(out, plan, schedule);
  add_bytes(out, *finished[0], schedule);
  if (!is_measured(out, schedule)) return out;
  divide_waiting(out, schedule);
  if (maker) add_bubble_formula(out, schedule, *maker);
  return out;
}

std::optional<MeasuredSchedule> measured_schedule(const RunPlan& plan,
                                                  const PipelineSummary& summary) {
  Schedule schedule = schedule_of(plan);
  if (!is_measured(summary, schedule)) return {};
  auto times = simulate(schedule, measured_times(summary));
  return MeasuredSchedule{std::move(schedule), std::move(times)};
}

}  // namespace ringside::runner
