// Sums of doubles over ranks.
#pragma once

#include <span>

#include "core/comm/communicator.h"

namespace ringside::peer {

/// Added in rank order in fp64; every rank has the same bits. Collective; blocks. Communicators
/// know fp32 alone, so the values' bytes are gathered, as two floats each. 8 (p-1) bytes a value
/// and rank.
void sum_over_ranks(Device& device, Communicator& communicator, std::span<double> values);

}  // namespace ringside::peer
