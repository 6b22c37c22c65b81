// What the operating system says of this process's memory.
#pragma once

#include "core/observe/record.h"

namespace ringside {

/// Fills in `rss` and `rss_of_peers` from /proc; they stay 0 where there is none. Not for simulated
/// ranks: all of them are in one process, which is the simulator's.
void note_process_memory(RankRecord& record);

}  // namespace ringside
