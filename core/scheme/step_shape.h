// StepShape: what the closed form of a scheme's bytes is made of.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/shape.h"

namespace ringside {

/// The quantities that decide the least traffic of a step, in the mean over steps [first_step,
/// steps), whose traffic is measured: counts, and sizes in bytes.
struct StepShape {
  int world = 1;
  std::int64_t first_step = 0, steps = 1;
  int servers = 0;
  std::int64_t micro_batches = 1;  // micro-batches of a rank
  std::int64_t reductions = 1;  // how often gradients are reduced: for every micro-batch, or once
  std::int64_t parameters = 0;
  int moments = 0;  // fp32 values that the optimizer keeps of each parameter besides its master
  std::int64_t parameter_bytes = 0;
  std::int64_t gradient_bytes = 0;  // as gradients are reduced over ranks
  std::int64_t lent_bytes = 0;      // parameters that a second unit reads as well (Unit::lender)
  std::vector<Shape> tensors{};     // of the model's parameters
  /// Samples of a step: of worker 0, of another worker at most, and of all workers together.
  std::int64_t first_samples = 0, other_samples = 0, samples = 0;
  std::int64_t input_bytes = 0, logit_bytes = 0;  // of one sample
};

}  // namespace ringside
