// A recorded wait for all ranks of a group.
#pragma once

#include "core/scheme/exposed.h"

namespace ringside::peer {

using ringside::wait_exposed;

/// Waits for all ranks of the group (a barrier), and records the wait as exposed. Errors and
/// records of the group show the `reason`.
inline void wait_for_all(Timeline& timeline, Communicator& group, const char* reason) {
  group.name_next(reason);
  const auto span = timeline.scope(Activity::exposed, "wait for all ranks");
  group.barrier();
}

}  // namespace ringside::peer
