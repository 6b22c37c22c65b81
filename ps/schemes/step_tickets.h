// StepTickets: the remaining steps of a run, handed out to asynchronous workers.
#pragma once

#include <optional>

#include "ps/protocol/client.h"

namespace ringside::ps {

/// The steps that server 0 grants to one worker. Each grant (ticket) is requested one step ahead,
/// so that the worker need not wait for it.
class StepTickets {
 public:
  /// The client outlives this object.
  explicit StepTickets(Client& client) : client_(client) { ask(); }
  StepTickets(const StepTickets&) = delete;
  StepTickets& operator=(const StepTickets&) = delete;

  /// The number of steps that this worker may take up to its next push; 0 once the run has no steps
  /// left, or if all workers meet before there are more, after so many steps of the run.
  struct Ticket {
    std::int64_t steps = 0, meets_after = 0;
  };
  /// The next ticket. `speed`, of this worker's steps so far, decides the number after this one.
  /// May block.
  Ticket take(double speed = 0) {
    if (!asks_) ask(speed);
    client_.wait("a ticket for the next step", [this] { return ticket_.has_value(); });
    const Ticket ticket = *ticket_;
    asks_ = false;
    if (ticket.steps > 0) ask(speed);
    return ticket;
  }

 private:
  void ask(double speed = 0) {
    asks_ = true;
    ticket_.reset();
    Message request;
    request.header.kind = Kind::ticket;
    request.header.step = asked_++;
    request.header.scalar = speed;
    client_.ask(0, std::move(request), "ticket", [this](const Message& reply) {
      ticket_ = {static_cast<std::int64_t>(reply.header.scalar), reply.header.version};
    });
  }

  Client& client_;
  std::optional<Ticket> ticket_;
  bool asks_ = false;
  std::int64_t asked_ = 0;
};

}  // namespace ringside::ps
