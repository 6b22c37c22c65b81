// Ranks of a measurement.
#pragma once

#include <barrier>
#include <functional>

namespace ringside {

/// Calls `body` once for each of `ranks`, in a thread of its own, and returns when all calls have.
/// Ranks that wait at `together` wait for all ranks whose calls have not returned. Throws the first
/// rank's error if a call throws.
void at_once(int ranks, const std::function<void(int rank, std::barrier<>& together)>& body);

}  // namespace ringside
