// Windows of simulated ranks.
#pragma once

#include <memory>

#include "core/comm/window.h"
#include "peer/comm/sim/group.h"

namespace ringside::peer {

/// Makes rank `rank`'s side of window `number` of the group (SimAccesses::expose), of which `own`
/// is the rank's tensor. All ranks have exposed theirs. Values move when an operation begins, and
/// its time passes afterwards: ranks do not touch the elements of others' operations meanwhile.
std::unique_ptr<Window> make_sim_window(sim::SimDevice& device, std::shared_ptr<SimGroup> group,
                                        int rank, std::size_t number, const Tensor& own);

}  // namespace ringside::peer
