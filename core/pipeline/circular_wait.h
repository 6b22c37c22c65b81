// Ranks of a pipeline that wait for each other in a circle, so that none of them goes on.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

struct CircularWait {
  std::string text;        // one line: the ranks, and the action with which each waits for the next
  int rank = 0;            // the first of them
  std::size_t action = 0;  // its action that waits
};

/// Lets all ranks carry out their actions as far as they can. Returns nothing if all of them reach
/// their end. Sends and receives wait for nobody; an action that computes waits
/// for the value that it needs, until it is sent, or made if the schedule has no sends. Every stage
/// and every value of the schedule must have passed the other parts of check().
std::optional<CircularWait> circular_wait(const Schedule& schedule);

}  // namespace ringside::pipeline
