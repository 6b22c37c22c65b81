// A worker's course through a run whose workers do not wait for each other: meetings, and grants of
// steps.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/saved_steps.h"
#include "core/plan/worlds.h"
#include "core/scheme/rank_context.h"
#include "core/scheme/scheme.h"
#include "ps/protocol/client.h"
#include "ps/schemes/step_tickets.h"

namespace ringside::ps {

/// Asks server 0 before every step whether workers meet first (ps/protocol/meetings.h), and meets
/// the others. In a run that writes no checkpoints it sends nothing. All calls throw the errors of
/// the client.
class WorkerMeetings {
 public:
  /// Both arguments outlive this object.
  WorkerMeetings(const RankContext& context, Client& client)
      : client_(client),
        servers_(context.plan.servers),
        meets_(writes_checkpoints(context.plan)),
        asks_first_(seats_are_taken_again(context.plan)) {}

  /// Before a worker goes on that has done `done` steps of the run: the assignment to save, if
  /// workers meet at this moment. `own` is what the worker has done by its own count. Waits for
  /// server 0, and at a meeting for all workers.
  std::optional<StepAssignment> before_step(std::int64_t done, std::int64_t own);
  std::optional<StepAssignment> before_step(std::int64_t done) { return before_step(done, done); }
  /// The meeting after so many steps; none if it is cancelled.
  std::optional<StepAssignment> meet(std::int64_t steps, std::int64_t own);
  /// Whether the run is over, as server 0 said last.
  bool is_over() const { return over_; }

 private:
  Client& client_;
  int servers_;
  bool meets_;
  bool asks_first_;  // server 0 says whether a meeting is held, as workers come and go
  bool over_ = false;
};

/// The course of a worker whose steps are granted by server 0 (StepTickets), or which does
/// train.steps steps, as all others.
class WorkerCourse {
 public:
  /// A push has at most `period` steps.
  WorkerCourse(const RankContext& context, Client& client, bool equal_steps, std::int64_t period);

  /// Before a push: the assignment to save, or the steps up to the push, 0 if the run is over. The
  /// worker has done `done` steps. May block.
  struct Next {
    std::int64_t steps = 0;
    std::optional<StepAssignment> saves{};
  };
  Next next(std::int64_t done, double speed = 0);

 private:
  std::int64_t steps_, period_;
  WorkerMeetings meetings_;
  std::optional<StepTickets> tickets_;
};

}  // namespace ringside::ps
