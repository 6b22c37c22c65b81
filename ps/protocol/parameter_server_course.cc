// ParameterServer: the course of a run whose workers do not wait for each other: tickets for steps,
// workers that are done, and workers that are lost.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "ps/protocol/parameter_server.h"

namespace ringside::ps {

std::int64_t ParameterServer::begun() const { return std::max(Server::begun(), budget_.begun()); }

Replies ParameterServer::ticket(int worker, const Header& header) {
  if (!policy_->shares_steps() || server() != 0)
    throw Error("this server gives no tickets; server 0 does, where workers share the run's steps");
  if (!(std::isfinite(header.scalar) && header.scalar >= 0))
    throw Error("the worker's speed is {}; it must be finite and not below 0", header.scalar);
  const std::int64_t limit = meetings().are_planned() ? meetings().limit() : config_.steps;
  const std::int64_t steps = budget_.give(worker, header.scalar, limit, [this](int other) {
    return !seats().is_done(other) && !finishers_.has(other);
  });
  Message reply{reply_to(header), {}};
  reply.header.scalar = static_cast<double>(steps);
  if (steps == 0) reply.header.version = meetings().due().value_or(0);
  return one_reply(worker, std::move(reply));
}

/// A quorum may never be there while workers stand at a meeting: what has come is merged then.
Replies ParameterServer::rest(int worker) {
  if (!policy_->grace_s()) return {};
  for (ChunkState& state : chunks_) state.rest(worker, true);
  return advance_all();
}

void ParameterServer::go_on() {
  for (ChunkState& state : chunks_)
    for (int worker = 0; worker < workers(); ++worker) state.rest(worker, false);
}

Replies ParameterServer::merge(const Header& header) {
  if (!policy_->grace_s()) throw Error("this server merges no pushes");
  if (std::ranges::any_of(chunks_, &ChunkState::decides_merges))
    throw Error("this server decides itself which workers a merge takes");
  merges_.take(header);
  return advance_all();
}

Replies ParameterServer::finish(int worker, const Header& header) {
  finishers_.take(worker, header);
  Replies replies;
  // With backup workers an update that lacks the gradients of lost workers must not wait for
  // workers that are done either.
  if (policy_->may_skip() && config_.rules.consistency != Consistency::easgd)
    replies = leave(worker);
  // A process that has joined after that pushes nothing.
  if (finishers_.are_answered()) replies.push_back({worker, {reply_to(header), {}}});
  append(replies, finishers_.answer(seats()));
  return replies;
}

Replies ParameterServer::skip(int worker, std::int64_t number) {
  Replies replies;
  if (!policy_->may_skip() || policy_->shares_steps()) return replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index)
    if (chunks_[index].skip(worker, number)) append(replies, advance(index));
  return replies;
}

Replies ParameterServer::leave(int worker) {
  Replies replies;
  for (ChunkState& state : chunks_) state.leave(worker);
  append(replies, advance_all());
  return replies;
}

std::vector<int> ParameterServer::patient() const {
  std::vector<int> workers = finishers_.waiting(seats());
  // Those of a quorum, and those that take no part in a round, may wait for many steps of others.
  if (policy_->may_skip())
    for (const ChunkState& state : chunks_)
      for (const ChunkReader& reader : state.readers()) workers.push_back(reader.worker);
  std::ranges::sort(workers);
  workers.erase(std::unique(workers.begin(), workers.end()), workers.end());
  return workers;
}

std::optional<double> ParameterServer::due() const {
  std::optional<double> first;
  for (const ChunkState& state : chunks_)
    if (state.due() && (!first || *state.due() < *first)) first = state.due();
  return first;
}

Replies ParameterServer::wake() {
  Replies replies;
  for (std::size_t index = 0; index < chunks_.size(); ++index)
    if (chunks_[index].due()) append(replies, advance(index));
  return replies;
}

/// As long as the worker is expected, no update of all workers gets beyond its first push here.
Server::Joining ParameterServer::expect(int worker) {
  std::int64_t first = 0;
  for (const ChunkState& state : chunks_) first = std::max(first, state.first_push(worker));
  for (ChunkState& state : chunks_) state.come(worker, first);
  finishers_.forget(worker);
  return {first, finishers_.are_answered()};
}

Replies ParameterServer::begin_at(int worker, std::int64_t first) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // no sum overflows
  for (const ChunkState& state : chunks_)
    if (first < state.clocks().next(worker) || first > most)
      throw Error("the worker wants to begin with push {}, but {} is the first it can make here",
                  first, state.clocks().next(worker));
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].come(worker, first);
    codes_.begin_anew(index, worker);
  }
  if (policy_->shares_steps()) budget_.count_given(worker, first);
  return advance_all();
}

Replies ParameterServer::lose(int worker) {
  int left = -1;  // workers that stay
  for (int w = 0; w < workers(); ++w) left += seats().is_lost(w) ? 0 : 1;
  const bool waits_for_all = policy_->values_rest();
  const bool enough = policy_->may_skip() ? left >= policy_->gradients(config_.workers) : left > 0;
  if (waits_for_all || !enough) return Server::lose(worker);
  // Steps for which the lost worker had a ticket but whose gradients never arrived are given to
  // other workers. Its speed counts no more.
  if (!chunks_.empty()) budget_.count_given(worker, chunks_[0].clocks().next(worker));
  budget_.forget_speed(worker);
  Replies replies = count_as_lost(worker);
  append(replies, leave(worker));
  if (compensation_) compensation_->leave(worker);
  append(replies, finishers_.answer(seats()));
  return replies;
}

}  // namespace ringside::ps
