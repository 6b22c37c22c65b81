// How the samples of a step are divided over ranks and their micro-batches.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/run_plan.h"

namespace ringside {

/// Checks train.shares for `ranks` ranks, and replaces weights that are all equal by Shares::equal.
/// A single rank has everything, whatever the weights say. `who` names the ranks in errors.
void settle_shares(TrainConfig& train, std::int64_t ranks, const std::string& who);

/// Divides the samples of a step of `ranks` ranks: puts into train.shares and train.weights what a
/// plan has there (core/plan/slices.h), and returns the number of micro-batches of each rank. This
/// is the same for all ranks, because collectives within a micro-batch need all of them, and the
/// smallest for which no micro-batch is larger than train.micro_batch, but at least
/// train.accumulation. Shares that are equal or given must come out in whole samples. Those in
/// proportion to speed are rounded so that the slowest rank is as fast as it can be; the speed of a
/// device is measured in virtual time, by a forward and a backward of the model on that device
/// alone. Throws Error for what cannot be divided, and for Shares::speed on real devices.
std::int64_t divide(RunPlan& plan, std::int64_t ranks, const std::string& who);

}  // namespace ringside
