#include "ps/protocol/worker_failures.h"

#include <utility>

#include "core/base/error.h"

namespace ringside::ps {
namespace {

/// The time that a launcher may take to notice that a process has ended.
constexpr double notice_s = 5;

}  // namespace

std::optional<Received> WorkerFailures::receive(double timeout_s) {
  try {
    return channel_.receive(timeout_s);
  } catch (const PeerGone& gone) {
    if (context_.plan.expendable == 0) throw;
    keep(gone.peer, gone.what());
    return {};
  }
}

void WorkerFailures::send(Reply reply) {
  if (context_.plan.expendable == 0) return channel_.send(reply.worker, std::move(reply.message));
  try {
    channel_.send(reply.worker, std::move(reply.message));
  } catch (const Error& error) {
    keep(reply.worker, error.what());
  }
}

void WorkerFailures::keep(int worker, const std::string& error) {
  if (!server_.is_done(worker)) unsent_.try_emplace(worker, Unsent{now(), error});
}

void WorkerFailures::look(double pause_s) {
  if (context_.plan.expendable == 0 || now() - looked_ < pause_s) return;
  looked_ = now();
  for (int worker = 0; worker < context_.plan.world; ++worker) {
    if (server_.is_done(worker) || !context_.store.try_get(lost_key(worker))) continue;
    unsent_.erase(worker);
    for (Reply& reply : server_.lose(worker)) send(std::move(reply));
  }
  for (const auto& [worker, unsent] : unsent_)
    if (now() - unsent.since > notice_s) throw Error("{}", unsent.error);
}

}  // namespace ringside::ps
