// Waiting for communication, and the record of it.
#pragma once

#include <string>
#include <utility>

#include "core/comm/communicator.h"
#include "core/observe/timeline.h"

namespace ringside::peer {

/// Waits for `work` on the rank's main thread and lets go of `work`. Records the wait as exposed,
/// and the operation, from its launch to its end, as communication. The part of the operation that
/// is not exposed was hidden behind other work.
inline void wait_exposed(Timeline& timeline, const std::string& name, WorkPtr work) {
  {
    const auto span = timeline.scope(Activity::exposed, "wait " + name);
    work->wait();
  }
  const auto [begin, end] = work->span();
  timeline.add(Activity::communication, name, begin, end);
}

/// Waits until all ranks of the group have come here, and records the wait as exposed. Errors and
/// records of the group show the `reason`.
inline void wait_for_all(Timeline& timeline, Communicator& group, const char* reason) {
  group.name_next(reason);
  const auto span = timeline.scope(Activity::exposed, "wait for all ranks");
  group.barrier();
}

}  // namespace ringside::peer
