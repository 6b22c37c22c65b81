// Activations that the stages of a pipeline hold while a schedule runs.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// The most micro-batches of a stage at a time.
struct HeldMicroBatches {
  std::int64_t until_weight_gradient = 0;  // from the begin of F to the end of B or W
  std::int64_t until_input_gradient = 0;   // from the begin of F to the end of B or I
};
/// Of each stage. It depends on the order of actions alone. The schedule passes check().
std::vector<HeldMicroBatches> held_micro_batches(const Schedule& schedule);

/// Throws WrongSchedule, which names schedule, stage and rank, if a stage holds more than `most`
/// micro-batches until B or W; 0: it may hold all.
void check_held(const Schedule& schedule, std::int64_t most);

/// Bytes that one stage holds for one micro-batch.
struct ActivationBytes {
  /// Between actions: all that backward needs from F until B or I, and what W needs from I until W
  /// (Qi et al. 2024, section 2.3: M_B and M_W).
  double before_input_gradient = 0, before_weight_gradient = 0;
  /// The most while the action is carried out on the micro-batch; 0: what it holds before or after.
  double in_forward = 0, in_backward = 0, in_input_gradient = 0, in_weight_gradient = 0;
};
/// The most bytes that a rank holds at a time for all its stages, of which some micro-batches may
/// have a whole backward and others a divided one. `stages` has one entry a stage.
double most_activation_bytes(const Schedule& schedule, int rank,
                             const std::vector<ActivationBytes>& stages);

}  // namespace ringside::pipeline
