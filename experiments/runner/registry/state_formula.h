// The bytes of model state that a worker holds by the formula of the ZeRO paper, to show beside
// what its device's ledger counted.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/run_plan.h"

namespace ringside::runner {

/// Bytes of one worker.
struct StateBytes {
  double parameters = 0, gradients = 0, optimizer = 0;
  double total() const { return parameters + gradients + optimizer; }
};

/// Of a run whose model has so many parameters (Rajbhandari et al., SC'20, section 5): each part of
/// the state is divided evenly among the ranks that SchemeInfo::divides names. A parameter and its
/// gradient have 2 bytes each in 16 bits and 4 in fp32; AdamW keeps 8, and in 16 bits 4 more for
/// the master value: the paper's K = 12. Nothing for a scheme without `divides`, with offload, if
/// gradients are summed in another dtype than they are computed in, and if workers have different
/// stages of the model, whose sizes differ.
std::optional<StateBytes> state_formula(const RunPlan& plan, std::int64_t parameters);

}  // namespace ringside::runner
