// FinishRequests: the requests of workers that push no more.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "ps/protocol/replies.h"
#include "ps/protocol/worker_seats.h"

namespace ringside::ps {

/// The requests to finish (Kind::finish). All are answered together, once every worker that is not
/// lost has sent one: nobody pushes any more then, so each may read the last values.
class FinishRequests {
 public:
  explicit FinishRequests(int workers) : requests_(static_cast<std::size_t>(workers)) {}

  /// Throws Error if the worker has sent one before.
  void take(int worker, const Header& request);
  /// A new process has the worker's seat.
  void forget(int worker) { requests_[static_cast<std::size_t>(worker)].reset(); }
  bool has(int worker) const { return requests_[static_cast<std::size_t>(worker)].has_value(); }

  /// The answers to all, when they are due; afterwards nothing.
  Replies answer(const WorkerSeats& seats);
  bool are_answered() const { return answered_; }
  /// The workers that wait for the answer, or have it and are not done yet.
  std::vector<int> waiting(const WorkerSeats& seats) const;

 private:
  std::vector<std::optional<Header>> requests_;  // by worker
  bool answered_ = false;
};

}  // namespace ringside::ps
