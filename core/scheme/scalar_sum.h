// Sums of doubles over ranks.
#pragma once

#include <span>

#include "core/comm/communicator.h"
#include "core/observe/timeline.h"

namespace ringside {

/// Replaces each value by its sum over all ranks, added in rank order in fp64; every rank gets the
/// same bits. Collective; blocks. Communicators cannot sum fp64, so the ranks gather each
/// other's values. With p ranks, a rank sends 8 * (p - 1) bytes for each value. The timeline, if
/// there is one, shows the sum in traces.
void sum_over_ranks(Device& device, Communicator& communicator, std::span<double> values,
                    Timeline* timeline = nullptr);

}  // namespace ringside
