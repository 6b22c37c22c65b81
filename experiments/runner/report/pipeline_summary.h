// PipelineSummary: the figures of a case's pipeline, beside those of its schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/fields.h"
#include "core/pipeline/schedule.h"
#include "core/pipeline/simulation.h"
#include "experiments/runner/report/case_parts.h"

namespace ringside::runner {

/// Times are means of one micro-batch, in milliseconds; 0: the schedule has no such actions.
struct StageSummary {
  int stage = 0, rank = 0;  // `rank`: the place of its workers along the pipeline
  double forward_ms = 0, backward_ms = 0, input_gradient_ms = 0, weight_gradient_ms = 0;
  /// The most micro-batches between their F and their B or W, of any worker and repeat, and by the
  /// schedule (pipeline::MakerInfo::in_flight, or counted in a schedule of a file).
  std::int64_t under_way = 0, in_flight = 0;

  double compute_ms() const {
    return forward_ms + backward_ms + input_gradient_ms + weight_gradient_ms;
  }
};

/// The workers at one place along the pipeline.
struct PipelinePlace {
  int rank = 0;
  double waiting_ms = 0;             // for values of other stages, in a step
  double bubble = 0;                 // this time as a share of a step
  double activation = 0;             // PipelineRecord::most_activations of any of these workers
  double activation_by_formula = 0;  // most_activations()
};

/// Bytes that the busiest rank sends in a step along one dimension of the mesh, and the fewest that
/// this rank has to send.
struct DimensionBytes {
  double sent = 0, minimum = 0;
};

/// Shares are shares of an average worker's mean step. The three parts of the waiting add up to at
/// most all of it.
struct PipelineSummary {
  std::string schedule{};
  std::int64_t micro_batches = 0;
  double step_ms = 0, waiting_ms = 0;  // of an average worker
  double bubble = 0;                   // waiting / step
  /// pipeline::MakerInfo::bubble with the mean times of all stages, as such a share; nothing for
  /// schedules without a formula.
  std::optional<double> bubble_by_formula{};
  double imbalance = 1;  // the compute of the slowest stage over that of the mean one
  double bubble_ms = 0;  // what an average worker would wait if all stages took equally long
  double uneven_ms = 0;  // what it waits more because they do not
  double sends_ms = 0;   // the rest: values that come late
  DimensionBytes data{}, pipeline{};
  std::int64_t put_right = 0;          // PipelineRecord::put_right, the most of any repeat
  std::vector<StageSummary> stages{};  // of one replica, ascending
  std::vector<PipelinePlace> places{};
};

Fields fields_of(StageSummary& stage);
Fields fields_of(PipelinePlace& place);
Fields fields_of(DimensionBytes& bytes);
Fields fields_of(PipelineSummary& summary);

/// Times are medians over the repeats. Nothing if the plan has no pipeline or its ranks report
/// none.
std::optional<PipelineSummary> pipeline_of(const CaseRecords& finished);

/// The schedule of a case's step with the measured mean times of its stages, and sends that take no
/// time. Nothing if no times were measured.
struct MeasuredSchedule {
  pipeline::Schedule schedule;
  pipeline::SimulatedSchedule times;
};
std::optional<MeasuredSchedule> measured_schedule(const RunPlan& plan,
                                                  const PipelineSummary& summary);

}  // namespace ringside::runner
