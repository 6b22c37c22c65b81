// ParameterServer: the course of a run whose workers do not wait for each other: tickets for steps,
// workers that are done, and workers that are lost.
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

Replies ParameterServer::ticket(int worker, const Header& header) {
  if (!is_asynchronous(config_.rules.consistency) || server() != 0)
    throw Error("this server gives no tickets; server 0 does, with consistency asp or easgd");
  Message reply{reply_to(header), {}};
  reply.header.scalar = tickets_ > 0 ? 1 : 0;
  if (tickets_ > 0) {
    --tickets_;
    ++given_[static_cast<std::size_t>(worker)];
  }
  Replies replies;
  replies.push_back({worker, std::move(reply)});
  return replies;
}

Replies ParameterServer::finish(int worker, const Header& header) {
  std::optional<Header>& request = finishers_[static_cast<std::size_t>(worker)];
  if (request) throw Error("the worker has already said that it pushes no more");
  request = header;
  Replies replies;
  // With backup workers an update that lacks the gradients of lost workers must not wait for
  // workers that are done either.
  if (policy_->may_skip() && !is_elastic()) replies = leave(worker);
  append(replies, answer_finishers());
  return replies;
}

Replies ParameterServer::leave(int worker) {
  Replies replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].leave(worker);
    append(replies, advance(index));
  }
  return replies;
}

Replies ParameterServer::answer_finishers() {
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (!finishers_[w] && !is_lost(static_cast<int>(w))) return {};
  if (std::exchange(all_finished_, true)) return {};
  Replies replies;
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (finishers_[w] && !is_lost(static_cast<int>(w)))
      replies.push_back({static_cast<int>(w), {reply_to(*finishers_[w]), {}}});
  return replies;
}

std::vector<int> ParameterServer::patient() const {
  std::vector<int> workers;
  for (std::size_t w = 0; w < finishers_.size(); ++w)
    if (finishers_[w] && !is_done(static_cast<int>(w))) workers.push_back(static_cast<int>(w));
  return workers;
}

Replies ParameterServer::lose(int worker) {
  int left = -1;  // workers that stay
  for (int w = 0; w < workers(); ++w) left += is_lost(w) ? 0 : 1;
  const bool waits_for_all = policy_->values_rest();
  const bool enough = policy_->may_skip() ? left >= policy_->gradients(config_.workers) : left > 0;
  if (waits_for_all || !enough) return Server::lose(worker);
  // Steps for which the lost worker had a ticket but whose gradients never arrived are given to
  // other workers.
  if (!chunks_.empty())
    tickets_ += given_[static_cast<std::size_t>(worker)] -
                chunks_[0].clocks().next(worker) / config_.period;
  Replies replies = count_as_lost(worker);
  append(replies, leave(worker));
  if (!given_values_.empty())
    for (std::size_t index = 0; index < chunks_.size(); ++index) given_values(index, worker) = {};
  append(replies, answer_finishers());
  return replies;
}

}  // namespace ringside::ps
