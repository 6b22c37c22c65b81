// A clock for lengths of time.
#pragma once

#include <chrono>

namespace ringside {

/// Seconds since the host's start, so all processes of the host agree. The clock never runs
/// backward, whatever happens to the time of day.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace ringside
