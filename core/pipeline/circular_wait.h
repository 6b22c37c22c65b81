// Ranks of a pipeline that wait for each other in a circle, so that none of them goes on.
#pragma once

#include <string>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// Lets all ranks carry out their actions as far as they can. Returns an empty text if all of them
/// reach their end, or else one line with the ranks of a circle, and the action with which each of
/// them waits for the next one. Sends and receives wait for nobody; an action that computes waits
/// for the value that it needs, until it is sent, or made if the schedule has no sends. Every stage
/// and every value of the schedule must have passed the other parts of check().
std::string circular_wait(const Schedule& schedule);

}  // namespace ringside::pipeline
