#include "ps/protocol/server_checkpoints.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/plan/saved_steps.h"
#include "core/plan/worlds.h"
#include "core/train/saved_state.h"

namespace ringside::ps {
namespace {

void restore_course(ServerState& server, int number, const Manifest& manifest,
                    const std::string& path) {
  try {
    const nlohmann::json courses = manifest.scalars.at("servers");
    server.restore_course(courses.at(static_cast<std::size_t>(number)));
  } catch (const nlohmann::json::exception& error) {
    throw Error("{}: the course of server {} cannot be read: {}", path, number, error.what());
  } catch (const std::exception& error) {
    throw Error("{}: the course of server {}: {}", path, number, error.what());
  }
}

}  // namespace

ServerCheckpoints::ServerCheckpoints(const RankContext& context, Server& server,
                                     std::function<void()> meanwhile)
    : context_(context),
      server_(server),
      part_(context, RankPart::server, std::move(meanwhile)),
      last_(context.plan.until > 0 ? context.plan.until : context.plan.train.steps) {
  if (!is_asked_for()) return;
  part_.copies_say({{"server", context.self().server}});
  say_server_part(context, server.parameter_count() > 0);
  server.meetings().plan(context.plan.checkpoint.every, last_);
}

std::int64_t ServerCheckpoints::restore(std::int64_t parameters) {
  if (!goes_on(context_.plan)) return 0;
  const Checkpoint from = resumed_checkpoint(context_.plan, parameters);
  saved_ = from.manifest().step;
  SavedState saved(from, context_.plan, 0);
  const bool keeps = server_.parameter_count() > 0;
  if (keeps) server_.visit_state([&](const StateRange& range) { saved.write(range); });
  saved.takes(statistics_state);
  part_.went_on_after(saved_, keeps ? saved.note() : "");
  server_.restored(saved_, saved_loss_scale(from.manifest()).skipped);
  server_.meetings().restored(saved_);
  if (keeps && saved.is_of_same_algorithm())
    restore_course(server_, context_.self().server, from.manifest(), context_.plan.resume);
  return saved_;
}

bool ServerCheckpoints::is_asked_for() const {
  return writes_checkpoints(context_.plan) || is_elastic(context_.plan);
}

std::int64_t ServerCheckpoints::next_due() const {
  for (std::int64_t done = saved_ + 1; done < last_; ++done)
    if (saved_after(context_.plan, done) || copied_after(context_.plan, done)) return done;
  return last_;
}

void ServerCheckpoints::save(std::int64_t steps) {
  saved_ = steps;
  if (!writes()) return;
  part_.begin(steps);
  server_.visit_state([this](const StateRange& range) { part_.take(range); });
  const bool only_copied =
      copied_after(context_.plan, steps) && !saved_after(context_.plan, steps) && steps != last_;
  part_.write({{"course", server_.course()}}, writes_checkpoints(context_.plan) && !only_copied);
}

Replies ServerCheckpoints::hold_meeting() {
  if (!server_.has_meeting()) return {};
  const Meetings& meetings = server_.meetings();
  const bool held = !meetings.are_left_out();
  if (held) save(meetings.step());
  Replies replies = server_.end_meeting();
  if (held && meetings.is_over(saved_)) last_ = saved_;
  return replies;
}

Replies ServerCheckpoints::look() {
  if (!is_asked_for()) return {};
  if (context_.self().server == 0 && !told_to_stop_ && context_.store.try_get(stop_key)) {
    told_to_stop_ = true;
    server_.end_soon();
  }
  Replies replies = hold_meeting();
  if (const std::int64_t stop = said_stop(context_); stop > 0) last_ = stop;
  if (due_ <= saved_) due_ = next_due();
  const std::int64_t due = std::min(due_, last_);
  if (writes() && due != saved_ && server_.is_after(due)) save(due);
  return replies;
}

void ServerCheckpoints::finish(RankRecord& record) {
  if (is_asked_for() && server_.meetings().are_left_out())
    part_.give_up("a worker is lost, and checkpoints would lack its state");
  part_.finish(record);
}

}  // namespace ringside::ps
