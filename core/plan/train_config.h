// The [train] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/fields.h"
#include "core/tensor/dtype.h"

namespace ringside {

/// After which micro-batch of a step gradients are reduced over ranks.
enum class Reduce : std::uint8_t {
  by_scheme,  // as the scheme prefers: the planner replaces this value
  last,
  every
};
inline constexpr std::string_view reduce_names[] = {"auto", "last", "every"};
constexpr EnumNames names_of(Reduce) { return reduce_names; }

/// The number format of parameters, gradients, activations and communication. Master weights and
/// moments are fp32 in any case.
enum class Precision : std::uint8_t { fp32, bf16, fp16 };
inline constexpr std::string_view precision_names[] = {"fp32", "bf16", "fp16"};
constexpr EnumNames names_of(Precision) { return precision_names; }

/// What lives in the host's memory instead of the device's, and is updated by the host's processor.
enum class Offload : std::uint8_t {
  none,
  optimizer,  // optimizer state and master values
  parameters  // a rank's shards of parameters too
};
inline constexpr std::string_view offload_names[] = {"none", "optimizer", "parameters"};
constexpr EnumNames names_of(Offload) { return offload_names; }

struct TrainConfig {
  std::int64_t steps = 30;
  std::int64_t warmup = 5;
  std::int64_t global_batch = 16;
  std::int64_t batch_per_rank = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 1;
  Reduce reduce = Reduce::by_scheme;
  bool recompute = false;
  Offload offload = Offload::none;
  Precision precision = Precision::fp32;
  std::int64_t seed = 1;
  std::string initial_weights;
  std::int64_t evaluate_every = 0;
  std::int64_t evaluate_batches = 8;
  double timeout_s = 60;
  bool operator==(const TrainConfig&) const = default;
};

Fields fields_of(TrainConfig& config);

/// The dtype of parameters, gradients, activations and communication.
constexpr DType parameter_dtype(const TrainConfig& train) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  return dtypes[static_cast<std::size_t>(train.precision)];
}

}  // namespace ringside
