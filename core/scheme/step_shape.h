// The quantities on which the least traffic of a step depends.
#pragma once

#include <cstdint>

namespace ringside {

/// Counts, and sizes in bytes. The sizes of inputs and logits are for the global batch.
struct StepShape {
  int world = 1;
  int servers = 0;
  std::int64_t micro_batches = 1;  // micro-batches of a rank
  std::int64_t reductions = 1;  // how often gradients are reduced: for every micro-batch, or once
  std::int64_t parameters = 0;
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;  // as gradients are reduced over ranks
  std::int64_t lent_bytes = 0;      // parameters that a second unit reads as well (Unit::lender)
  std::int64_t input_bytes = 0;
  std::int64_t logit_bytes = 0;
};

}  // namespace ringside
