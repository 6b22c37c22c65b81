// The [train] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fields.h"
#include "core/tensor/dtype.h"

namespace ringside {

struct TrainConfig {
  std::int64_t steps = 30;
  std::int64_t warmup = 5;
  std::int64_t global_batch = 16;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 1;
  std::string reduce = "auto";
  bool recompute = false;
  std::string precision = "fp32";
  std::int64_t seed = 1;
  std::string initial_weights;
  std::int64_t evaluate_every = 0;
  std::int64_t evaluate_batches = 8;
  double timeout_s = 60;
  bool operator==(const TrainConfig&) const = default;
};

Fields fields_of(TrainConfig& config);

/// The dtype of parameters, gradients, activations and communication; masters and moments are fp32.
inline DType parameter_dtype(const TrainConfig& train) {
  for (const DType dtype : {DType::bf16, DType::f16})
    if (train.precision == name_of(dtype)) return dtype;
  return DType::f32;
}

}  // namespace ringside
