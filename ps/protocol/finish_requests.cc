#include "ps/protocol/finish_requests.h"

#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

void FinishRequests::take(int worker, const Header& request) {
  if (has(worker)) throw Error("the worker has already said that it pushes no more");
  requests_[static_cast<std::size_t>(worker)] = request;
}

Replies FinishRequests::answer(const WorkerSeats& seats) {
  for (int worker = 0; worker < seats.count(); ++worker)
    if (!has(worker) && !seats.is_lost(worker)) return {};
  if (std::exchange(answered_, true)) return {};
  Replies replies;
  for (int worker = 0; worker < seats.count(); ++worker)
    if (has(worker) && !seats.is_lost(worker))
      replies.push_back({worker, {reply_to(*requests_[static_cast<std::size_t>(worker)]), {}}});
  return replies;
}

std::vector<int> FinishRequests::waiting(const WorkerSeats& seats) const {
  std::vector<int> workers;
  for (int worker = 0; worker < seats.count(); ++worker)
    if (has(worker) && !seats.is_done(worker)) workers.push_back(worker);
  return workers;
}

}  // namespace ringside::ps
