// Waiting for communication, and the record of it.
#pragma once

#include <string>

#include "core/comm/communicator.h"
#include "core/observe/timeline.h"

namespace ringside {

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

}  // namespace ringside
