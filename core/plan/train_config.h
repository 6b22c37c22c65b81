// The [train] table of an experiment file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/tensor/dtype.h"

namespace ringside {

/// The micro-batches of a step after which gradients are reduced over ranks.
enum class Reduce : std::uint8_t {
  by_scheme,  // as the scheme prefers: the planner replaces this value
  last,
  every
};
inline constexpr std::string_view reduce_names[] = {"auto", "last", "every"};
constexpr EnumNames names_of(Reduce) { return reduce_names; }

/// The number format of parameters, gradients and activations. Master weights and moments are fp32
/// in any case.
enum class Precision : std::uint8_t { fp32, bf16, fp16 };
inline constexpr std::string_view precision_names[] = {"fp32", "bf16", "fp16"};
constexpr EnumNames names_of(Precision) { return precision_names; }

/// The activations that are dropped in forward and recomputed in backward, to the bit.
enum class Recompute : std::uint8_t {
  none,
  attention,  // those of attention: input, queries, keys, values, result (core/nn/attention.h)
  full        // all of every unit but the last: a unit keeps its input alone
};
inline constexpr std::string_view recompute_names[] = {"none", "attention", "full"};
constexpr EnumNames names_of(Recompute) { return recompute_names; }

/// The state that lives in the host's memory instead of the device's, and is updated by the host's
/// processor.
enum class Offload : std::uint8_t {
  none,
  optimizer,  // optimizer state and master values
  parameters  // a rank's shards of parameters too
};
inline constexpr std::string_view offload_names[] = {"none", "optimizer", "parameters"};
constexpr EnumNames names_of(Offload) { return offload_names; }

/// The number format in which gradients are summed over ranks; `same` is that of the parameters.
enum class ReducePrecision : std::uint8_t { same, fp32, bf16, fp16 };
inline constexpr std::string_view reduce_precision_names[] = {"same", "fp32", "bf16", "fp16"};
constexpr EnumNames names_of(ReducePrecision) { return reduce_precision_names; }

/// The division of a step's samples over the workers.
enum class Shares : std::uint8_t {
  equal,
  speed,  // in proportion to the speed of the workers' devices: the planner replaces this value as
          // soon as the speeds are known (core/plan/measured_speeds.h)
  given   // in proportion to TrainConfig::weights
};
inline constexpr std::string_view shares_names[] = {"equal", "speed", "given"};
constexpr EnumNames names_of(Shares) { return shares_names; }

struct TrainConfig {
  std::int64_t steps = 30;
  std::int64_t warmup = 5;
  std::int64_t global_batch = 16;
  std::int64_t batch_per_rank = 0;
  std::int64_t micro_batch = 0;
  std::int64_t accumulation = 1;
  Shares shares = Shares::equal;
  /// Shares::given: one number for each worker. In a plan, the number of samples in each of the
  /// worker's micro-batches.
  std::vector<std::int64_t> weights;
  Reduce reduce = Reduce::by_scheme;
  Recompute recompute = Recompute::none;
  Offload offload = Offload::none;
  Precision precision = Precision::fp32;
  ReducePrecision reduce_precision = ReducePrecision::same;
  std::int64_t seed = 1;
  std::string initial_weights;
  std::int64_t evaluate_every = 0;
  std::int64_t evaluate_batches = 8;
  double timeout_s = 75;  // a debugger may be attached for a minute
  /// Steps in a row that all workers skip because a gradient or a loss of one of them is not
  /// finite; one more ends the run. 0: the first one does.
  std::int64_t skip_not_finite = 0;
  bool operator==(const TrainConfig&) const = default;
};

Fields fields_of(TrainConfig& config);

/// Whether a run that has held-out samples evaluates after a step (counted from 0).
constexpr bool evaluates_after(const TrainConfig& train, std::int64_t step) {
  return train.evaluate_every > 0 &&
         ((step + 1) % train.evaluate_every == 0 || step + 1 == train.steps);
}

/// The dtype of parameters, activations, and gradients as backward writes them.
constexpr DType parameter_dtype(const TrainConfig& train) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  return dtypes[static_cast<std::size_t>(train.precision)];
}

/// The dtype of gradients while they are summed over ranks, as MixedPrecision(reduce_dtype) of
/// PyTorch's FSDP. A rank adds up its own micro-batches in parameter_dtype(), converts the result,
/// which rounds it if reduce_dtype() has fewer bits, and every addition over ranks is rounded to
/// reduce_dtype(). A lone rank converts too.
constexpr DType reduce_dtype(const TrainConfig& train) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  return train.reduce_precision == ReducePrecision::same
             ? parameter_dtype(train)
             : dtypes[static_cast<std::size_t>(train.reduce_precision) - 1];
}

/// The dtype of a sum over ranks when the optimizer gets it, and in which the sums of several
/// reductions of a step are added up: fp32, unless parameters and reductions have one dtype of 16
/// bits.
constexpr DType sum_dtype(const TrainConfig& train) {
  const DType dtype = parameter_dtype(train);
  return dtype == reduce_dtype(train) ? dtype : DType::f32;
}

/// Whether gradients are of another dtype while they are summed over ranks than before.
constexpr bool converts_gradients(const TrainConfig& train) {
  return parameter_dtype(train) != reduce_dtype(train);
}

/// Whether gradients are of fp16 before the optimizer gets them, and may overflow.
constexpr bool has_fp16_gradients(const TrainConfig& train) {
  return parameter_dtype(train) == DType::f16 || reduce_dtype(train) == DType::f16;
}

/// Whether all workers skip a step whose gradients are not finite, which they then find out by an
/// exact sum of squares before every update.
constexpr bool skips_steps(const TrainConfig& train) {
  return has_fp16_gradients(train) || train.skip_not_finite > 0;
}

}  // namespace ringside
