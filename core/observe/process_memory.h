// What the operating system says of this process's memory.
#pragma once

#include <cstdint>

namespace ringside {

struct ProcessMemory {
  /// Largest resident set so far, and how much of the present one is symmetric memory of other
  /// processes that this one maps; bytes.
  std::int64_t peak_resident = 0;
  std::int64_t resident_of_peers = 0;
};

/// From /proc; zeros where there is none.
ProcessMemory process_memory();

}  // namespace ringside
