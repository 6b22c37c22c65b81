// The critical path of a step: the chain of work and waits that decides its length.
#pragma once

#include <string>
#include <vector>

#include "experiments/tools/explain/traced_steps.h"
#include "experiments/tools/explain/waits.h"

namespace ringside::tools::explain {

/// A part of the chain. The parts follow each other without gaps.
struct PathPart {
  int rank = 0;            // the rank that did it; of communication: the rank that waited for it
  std::string activity{};  // a name of Activity, or "nothing" for time in no slice
  std::string name{};      // "backward block.3", "all-reduce bucket 0"
  double ms = 0;
};

/// Follows a traced step back from its end: through the slices of the main thread of the rank that
/// ended last, from a wait to the communication that ended it, and from there to the rank that came
/// to it last; of a message between stages that is its sender, unless the receiver came later. Ends
/// where the step of that rank began. The parts come in the order of time; none without steps. It
/// follows the traced step whose length is nearest to `step_ms`, because the last step of a run may
/// also wait for communication that other steps leave to the next one.
std::vector<PathPart> critical_path(const TracedRun& run, const Collectives& collectives,
                                    double step_ms);

/// The path by activity and rank: parts of one activity on one rank, and communication of one
/// operation ("all-reduce"), are added up; the longest first.
std::vector<PathPart> added_up(const std::vector<PathPart>& path);

}  // namespace ringside::tools::explain
