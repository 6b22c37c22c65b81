// The division of a step's samples over ranks and their micro-batches.
#pragma once

#include <cstdint>
#include <string>

#include "core/plan/measured_speeds.h"

namespace ringside::runner {

/// Checks train.shares for `ranks` ranks, and replaces weights that are all equal by Shares::equal.
/// A single rank has all samples, whatever its weight. `who` names the ranks in errors.
void settle_shares(TrainConfig& train, std::int64_t ranks, const std::string& who);

/// Divides the samples of a step over `ranks` ranks: sets train.shares and train.weights of the
/// plan (core/plan/slices.h), and returns the number of micro-batches of each rank. This is the
/// same for all ranks, because collectives within a micro-batch need all of them, and the smallest
/// for which no micro-batch is larger than train.micro_batch, but at least train.accumulation.
/// Shares that are equal or given must come out in whole samples. Those in proportion to speed are
/// rounded so that the slowest rank is as fast as it can be. The speed of a simulated device is
/// that of a forward and a backward of the model on that device alone, in virtual time; the speeds
/// of real devices are looked up in `measured`. Where they are missing, the samples are divided as
/// if all ranks were equally fast, and train.shares stays Shares::speed: the run is to be planned
/// again once its speeds are measured. Throws Error if the samples cannot be divided.
std::int64_t divide(RunPlan& plan, std::int64_t ranks, const std::string& who,
                    const std::vector<MeasuredSpeeds>& measured);

}  // namespace ringside::runner
