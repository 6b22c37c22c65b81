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

  /// Whether this worker may go on; false once the run has no steps left. May block.
  bool take() {
    client_.wait("a ticket for the next step", [this] { return ticket_.has_value(); });
    const bool may_go_on = *ticket_;
    if (may_go_on) ask();
    return may_go_on;
  }

 private:
  void ask() {
    ticket_.reset();
    Message request;
    request.header.kind = Kind::ticket;
    request.header.step = asked_++;
    client_.ask(0, std::move(request), "ticket",
                [this](const Message& reply) { ticket_ = reply.header.scalar > 0; });
  }

  Client& client_;
  std::optional<bool> ticket_;
  std::int64_t asked_ = 0;
};

}  // namespace ringside::ps
