#include "ps/protocol/worker_failures.h"

#include <utility>

#include "core/base/error.h"
#include "core/plan/worlds.h"
#include "ps/protocol/rendezvous.h"

namespace ringside::ps {
namespace {

/// The time that a launcher may take to notice that a process has ended.
constexpr double notice_s = 5;

}  // namespace

WorkerFailures::WorkerFailures(const RankContext& context, Channel& channel, Server& server,
                               Greetings& greetings)
    : context_(context),
      channel_(channel),
      server_(server),
      greetings_(greetings),
      seats_are_taken_again_(seats_are_taken_again(context.plan)),
      processes_(static_cast<std::size_t>(context.plan.world)) {
  if (seats_are_taken_again_) server_.let_seats_be_taken_again();
}

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
  if (!server_.seats().is_done(worker)) unsent_.try_emplace(worker, Unsent{now(), error});
}

void WorkerFailures::look(double pause_s) {
  if (context_.plan.expendable == 0 || now() - looked_ < pause_s) return;
  looked_ = now();
  for (int worker = 0; worker < context_.plan.world; ++worker) {
    // A worker may leave its seat after its last message, and a process end before its first.
    if (server_.seats().is_done(worker) && !seats_are_taken_again_) continue;
    const std::int64_t process = processes_[static_cast<std::size_t>(worker)];
    if (!context_.store.try_get(lost_key(worker, process))) continue;
    unsent_.erase(worker);
    if (!server_.seats().is_lost(worker))
      for (Reply& reply : server_.lose(worker)) send(std::move(reply));
    if (seats_are_taken_again_) open_seat(worker);
  }
  for (const auto& [worker, unsent] : unsent_)
    if (now() - unsent.since > notice_s) throw Error("{}", unsent.error);
}

void WorkerFailures::open_seat(int worker) {
  const std::int64_t process = ++processes_[static_cast<std::size_t>(worker)];
  greetings_.forget(worker);
  const std::string address = channel_.admit_again(worker, process);
  context_.store.set(endpoint_key(context_.self().server, worker, process), address);
}

}  // namespace ringside::ps
