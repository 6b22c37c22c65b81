// The time of day, for people and other programs. To measure lengths of time use seconds_now().
#pragma once

#include <chrono>

namespace ringside {

/// Seconds since the beginning of 1970, UTC.
inline double time_of_day() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace ringside
