// The roll call of a group whose ranks share no memory: which ranks are still there.
#pragma once

#include <string>
#include <vector>

#include "core/comm/store.h"
#include "peer/comm/records.h"

namespace ringside::peer {

/// Called by a rank that has waited for others longer than `timeout_s`, and so, at nearly the same
/// time, by all ranks that wait for the same one. Leaves this rank's records in the store for the
/// user, sends the other ranks its last operation, and returns theirs: "rank 1 of 3 says nothing;
/// rank 2: in operation 2 (all_reduce of 4096 bytes) for 0.30 s". A rank that says nothing is late,
/// stopped or dead. Blocks for at most `timeout_s`, and at most a second. To be called once in a
/// group.
std::string call_the_roll(Store& store, const Group& group, const std::vector<Record>& own,
                          const std::string& what, double now, double timeout_s);

}  // namespace ringside::peer
