#include "core/plan/pipeline_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/base/error.h"
#include "core/pipeline/activations.h"
#include "core/pipeline/csv.h"
#include "core/pipeline/makers.h"
#include "core/plan/mesh.h"

namespace ringside {
namespace {

int chunks_of(const PipelineConfig& pipeline, pipeline::MakerInfo::Chunks allowed) {
  using Chunks = pipeline::MakerInfo::Chunks;
  if (allowed == Chunks::any) return static_cast<int>(pipeline.chunks);
  return allowed == Chunks::two ? 2 : 1;
}

/// Throws Error unless the schedule of a file is for the plan's pipelines and micro-batches.
void check_size(const pipeline::Schedule& schedule, const RunPlan& plan) {
  const PipelineConfig& pipeline = plan.pipeline;
  if (schedule.ranks() != plan.mesh.pipeline)
    throw Error(
        "pipeline.schedule = '{}': the file has {} rows, one for each worker of a pipeline, but "
        "mesh.pipeline = {}; set mesh.pipeline = {}, or choose another file",
        pipeline.schedule, schedule.ranks(), plan.mesh.pipeline, schedule.ranks());
  if (schedule.micro_batches != plan.train.accumulation)
    throw Error(
        "pipeline.schedule = '{}': the file is for {} micro-batches, but a worker has {} of them "
        "in a step; set train.accumulation or train.micro_batch so that it has {}",
        pipeline.schedule, schedule.micro_batches, plan.train.accumulation, schedule.micro_batches);
}

/// The schedule of the plan, whose sends a file may lack.
pipeline::Schedule planned_schedule(const RunPlan& plan) {
  const PipelineConfig& pipeline = plan.pipeline;
  if (!is_schedule_file(pipeline.schedule)) {
    const pipeline::MakerInfo& maker = pipeline::find_maker(pipeline.schedule);
    return maker.make(static_cast<int>(plan.mesh.pipeline), chunks_of(pipeline, maker.chunks),
                      plan.train.accumulation);
  }
  const std::string name = std::filesystem::path(pipeline.schedule).stem().string();
  pipeline::Schedule schedule = pipeline::parse_csv(pipeline.text, pipeline.schedule, name);
  check_size(schedule, plan);
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
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);
  if (!error && bytes > pipeline::most_csv_bytes)
    throw Error("pipeline.schedule = '{}': the file has {} bytes; at most {} are read", file, bytes,
                pipeline::most_csv_bytes);
  std::ifstream in(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (error || !in)
    throw Error(
        "pipeline.schedule = '{}' cannot be read; give the path of a CSV file, or the name of a "
        "schedule",
        file);
  return text;
}

pipeline::Schedule schedule_of(const RunPlan& plan) {
  pipeline::Schedule schedule = planned_schedule(plan);
  if (!plan.pipeline.text.empty()) check(schedule);  // before any sends are added
  schedule = with_sends(std::move(schedule));
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
