#include "core/plan/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/pipeline/activations.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/makers.h"
#include "core/plan/mesh.h"

namespace ringside {
namespace {

/// The stages of a worker. Throws Error for a number that the schedule does not allow.
int chunks_of(const PipelineConfig& pipeline, const pipeline::MakerInfo& maker) {
  const int usual = usual_chunks(maker);
  if (pipeline.chunks == 0) return usual;
  if (maker.chunks != pipeline::MakerInfo::Chunks::any && pipeline.chunks != usual)
    throw Error(
        "pipeline.chunks = {}: with schedule {} a worker has {}; leave it out, or choose "
        "pipeline.schedule = 'interleaved'",
        pipeline.chunks, maker.name, counted(usual, "stage"));
  return static_cast<int>(pipeline.chunks);
}

/// A file says by itself which worker has which stages.
void check_chunks(const pipeline::Schedule& schedule, const PipelineConfig& pipeline) {
  if (pipeline.chunks == 0 || pipeline.chunks * schedule.ranks() == schedule.stages()) return;
  throw Error(
      "pipeline.chunks = {}: {} has {} for {}; leave it out, as the file says by itself which "
      "worker has which stages",
      pipeline.chunks, pipeline.schedule, counted(schedule.stages(), "stage"),
      counted(schedule.ranks(), "worker"));
}

/// What a function returns; errors about the file, whose name they begin with, get that of the key.
template <class Function>
auto of_key(const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    throw Error("pipeline.schedule: {}", error.what());
  }
}

/// Throws Error unless the schedule of a file is for the plan's pipelines and micro-batches.
void check_size(const pipeline::Schedule& schedule, const RunPlan& plan) {
  const PipelineConfig& pipeline = plan.pipeline;
  if (schedule.ranks() != plan.mesh.pipeline)
    throw Error(
        "pipeline.schedule: {}: it has {}, one for each worker of a pipeline, but mesh.pipeline = "
        "{}; set mesh.pipeline = {}, or choose another file",
        pipeline.schedule, counted(schedule.ranks(), "row"), plan.mesh.pipeline, schedule.ranks());
  if (schedule.micro_batches != plan.train.accumulation)
    throw Error(
        "pipeline.schedule: {}: it is for {}, but a worker has {} of them in a step; set "
        "train.accumulation or train.micro_batch so that it has {}",
        pipeline.schedule, counted(schedule.micro_batches, "micro-batch", "es"),
        plan.train.accumulation, schedule.micro_batches);
}

/// The schedule of the plan, whose sends a file may lack.
pipeline::Schedule planned_schedule(const RunPlan& plan) {
  const PipelineConfig& pipeline = plan.pipeline;
  if (!is_schedule_file(pipeline.schedule)) {
    const pipeline::MakerInfo& maker = pipeline::find_maker(pipeline.schedule);
    return maker.make(static_cast<int>(plan.mesh.pipeline), chunks_of(pipeline, maker),
                      plan.train.accumulation);
  }
  const std::string name = std::filesystem::path(pipeline.schedule).stem().string();
  pipeline::Schedule schedule = of_key([&] {
    return pipeline::checked_csv(pipeline.text, pipeline.schedule, name, pipeline.most_in_flight);
  });
  check_size(schedule, plan);
  check_chunks(schedule, pipeline);
  return schedule;
}

}  // namespace

std::vector<UnitRange> stages_of(const RunPlan& plan, std::size_t units) {
  std::vector<UnitRange> out;
  std::size_t first = 0;
  for (const std::int64_t cut : plan.pipeline.cuts) {
    out.push_back({first, static_cast<std::size_t>(cut)});
    first = static_cast<std::size_t>(cut);
  }
  out.push_back({first, units});
  return out;
}

bool is_schedule_file(const std::string& schedule) { return schedule.ends_with(".csv"); }

std::string read_schedule_file(const std::string& file) {
  return of_key([&] { return pipeline::csv_text(file); });
}

pipeline::Schedule schedule_of(const RunPlan& plan) {
  pipeline::Schedule schedule = with_sends(planned_schedule(plan));
  check(schedule);
  check_held(schedule, plan.pipeline.most_in_flight);
  return schedule;
}

std::string recomputation_remark(const RunPlan& plan) {
  if (!has_pipeline(plan) || plan.train.recompute != Recompute::full) return {};
  const auto divides = [](const pipeline::Action& action) {
    return action.operation == pipeline::Operation::input_gradient;
  };
  const pipeline::Schedule schedule = schedule_of(plan);
  if (std::ranges::none_of(schedule.actions, [&](const auto& actions) {
        return std::ranges::any_of(actions, divides);
      }))
    return {};
  return fmt::format(
      "train.recompute = 'full' saves little memory under {}, whose backward is divided: I makes "
      "activations again, and W needs most of them (schedules with a whole backward save more)",
      schedule.name);
}

}  // namespace ringside
