// Slices of the global batch: each worker's samples, micro-batch by micro-batch.
#pragma once

#include <cstdint>

#include "core/data/loader.h"
#include "core/plan/run_plan.h"

namespace ringside {

/// The samples of step `step` that are number `micro_batch` of a worker's train.accumulation
/// micro-batches. Workers follow each other in the global batch, and so do the micro-batches of a
/// worker, which all have the same size. Sizes differ between workers where train.weights says so;
/// a rank that stands for several workers (`single` with replicas, a definition) has the
/// micro-batches of one worker after the other, each with the size that they have there.
BatchSlice slice_of(const RunPlan& plan, int worker, std::int64_t step, std::int64_t micro_batch);

/// The number of micro-batches that a rank computes at once (Pass::ranks): those of all ranks whose
/// batch norms are joined, if one rank stands for them.
std::int64_t joined_micro_batches(const RunPlan& plan);

/// The slice that the worker reads after that one; it may be of the next step.
BatchSlice next_slice(const RunPlan& plan, int worker, std::int64_t step, std::int64_t micro_batch);

/// The number of samples of a step that worker `worker` computes, and the most that any worker
/// computes at once.
std::int64_t samples_of(const RunPlan& plan, int worker);
std::int64_t largest_micro_batch(const RunPlan& plan);

}  // namespace ringside
