#include "ps/schemes/worker_course.h"

#include <algorithm>

namespace ringside::ps {

std::optional<StepAssignment> WorkerMeetings::before_step(std::int64_t done, std::int64_t own) {
  while (meets_ && !over_) {
    Message request;
    request.header.kind = Kind::go;
    request.header.step = done;
    const Header reply = client_.call(0, std::move(request), "leave for the next step").header;
    over_ = reply.scalar > 0;
    if (reply.version == 0 || done < reply.version) break;
    if (const auto saves = meet(reply.version, own)) return saves;
  }
  return {};
}

/// Pushes without a reply are ahead of the request on its way to each server.
std::optional<StepAssignment> WorkerMeetings::meet(std::int64_t steps, std::int64_t own) {
  client_.drain();
  bool held = true;
  for (int server = 0; server < servers_ && held; ++server) {
    Message request;
    request.header.kind = Kind::meet;
    request.header.step = steps;
    client_.ask(server, std::move(request), "meeting of all workers",
                [&held](const Message& reply) { held = held && reply.header.version > 0; });
    if (server == 0 && asks_first_) client_.drain();
  }
  client_.drain();
  if (!held) return {};
  return StepAssignment{.step = own, .saves_after = steps};
}

WorkerCourse::WorkerCourse(const RankContext& context, Client& client, bool equal_steps,
                           std::int64_t period)
    : steps_(context.plan.train.steps), period_(period), meetings_(context, client) {
  if (!equal_steps) tickets_.emplace(client);
}

WorkerCourse::Next WorkerCourse::next(std::int64_t done, double speed) {
  if (!tickets_) {
    if (auto saves = meetings_.before_step(done)) return {0, std::move(saves)};
    return {meetings_.is_over() ? 0 : std::min(period_, steps_ - done)};
  }
  for (;;) {
    const StepTickets::Ticket ticket = tickets_->take(speed);
    if (ticket.meets_after == 0) return {ticket.steps};
    if (auto saves = meetings_.meet(ticket.meets_after, done)) return {0, std::move(saves)};
  }
}

}  // namespace ringside::ps
