#include "ps/protocol/server_checkpoints.h"

#include <algorithm>

#include "core/plan/checkpoint_interval.h"
#include "core/train/saved_state.h"

namespace ringside::ps {

ServerCheckpoints::ServerCheckpoints(const RankContext& context, Server& server)
    : context_(context),
      server_(server),
      part_(context, RankPart::server),
      last_(context.plan.train.steps) {
  if (!context.plan.checkpoint.path.empty() || is_elastic(context.plan))
    say_server_part(context, server.parameter_count() > 0);
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
  return saved_;
}

bool ServerCheckpoints::writes() const {
  return (writes_checkpoints(context_.plan) || is_elastic(context_.plan)) &&
         server_.parameter_count() > 0;
}

std::int64_t ServerCheckpoints::next_due() const {
  for (std::int64_t done = saved_ + 1; done < last_; ++done)
    if (saved_after(context_.plan, done) || copied_after(context_.plan, done)) return done;
  return last_;
}

void ServerCheckpoints::look() {
  if (!writes()) return;
  if (const std::int64_t stop = said_stop(context_); stop > 0) last_ = stop;
  if (due_ <= saved_) due_ = next_due();
  const std::int64_t due = std::min(due_, last_);
  if (due == saved_ || !server_.is_after(due)) return;
  part_.begin(due);
  server_.visit_state([this](const StateRange& range) { part_.take(range); });
  const bool stops = due == last_ && last_ < context_.plan.train.steps;
  part_.write(nlohmann::ordered_json::object(),
              writes_checkpoints(context_.plan) && (saved_after(context_.plan, due) || stops));
  saved_ = due;
}

}  // namespace ringside::ps
