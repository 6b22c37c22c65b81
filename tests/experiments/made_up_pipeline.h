// Rows of invented runs with a pipeline.
#pragma once

#include <string>
#include <vector>

#include "tests/experiments/made_up_rows.h"

namespace ringside {

/// The figures of two stages, which two workers have, over 2 micro-batches of a sample each.
struct MadeUpPipeline {
  double step_ms = 0;
  std::vector<double> waiting_ms{}, f{}, b{};  // of each rank; f and b of a micro-batch
};

/// The step's parts are its waiting, as the mean over workers, and compute for the rest.
inline RunRecord made_up_pipeline(const std::string& schedule, const MadeUpPipeline& figures) {
  runner::ExperimentConfig config = made_up_experiment();
  config.mesh.pipeline = 2;
  config.pipeline.schedule = schedule;
  config.train.accumulation = 2;
  RunRecord row = made_up_row("ddp", 2, 0, 100, "a", {2, 1});
  set_plan(row, runner::plan_training(config, "ddp", 2));
  row.step_ms.median = figures.step_ms;
  row.time_ms.exposed = (figures.waiting_ms[0] + figures.waiting_ms[1]) / 2;
  row.time_ms.compute = figures.step_ms - row.time_ms.exposed;
  for (std::size_t r = 0; r < 2; ++r) {
    PipelineRecord& record = row.ranks[r].pipeline.emplace();
    record.waiting_ms = figures.waiting_ms[r];
    record.stages = {{.stage = static_cast<std::int64_t>(r),
                      .forward_ms = figures.f[r],
                      .backward_ms = figures.b[r],
                      .most_under_way = 2 - static_cast<std::int64_t>(r)}};
  }
  return row;
}

}  // namespace ringside
