// The resident memory of this process, as the operating system reports it.
#pragma once

#include "core/observe/rank_record.h"

namespace ringside {

/// Fills in `rss` and `rss_of_peers` from /proc; both stay 0 on a system without /proc. For
/// ranks with a process of their own. Takes a millisecond or more: the system looks at every page.
void note_process_memory(RankRecord& record);

}  // namespace ringside
