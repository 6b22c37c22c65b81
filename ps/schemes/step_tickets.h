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
  /// left. `speed`, of this worker's steps so far, decides the number after this one. May block.
  std::int64_t take(double speed = 0) {
    client_.wait("a ticket for the next step", [this] { return ticket_.has_value(); });
    const std::int64_t steps = *ticket_;
    if (steps > 0) ask(speed);
    return steps;
  }

 private:
  void ask(double speed = 0) {
    ticket_.reset();
    Message request;
    request.header.kind = Kind::ticket;
    request.header.step = asked_++;
    request.header.scalar = speed;
    client_.ask(0, std::move(request), "ticket", [this](const Message& reply) {
      ticket_ = static_cast<std::int64_t>(reply.header.scalar);
    });
  }

  Client& client_;
  std::optional<std::int64_t> ticket_;
  std::int64_t asked_ = 0;
};

}  // namespace ringside::ps
