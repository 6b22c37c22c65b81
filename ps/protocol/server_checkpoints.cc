#include "ps/protocol/server_checkpoints.h"

#include <algorithm>

#include "core/train/saved_state.h"

namespace ringside::ps {

ServerCheckpoints::ServerCheckpoints(const RankContext& context, Server& server)
    : context_(context),
      server_(server),
      part_(context, RankPart::server),
      last_(context.plan.train.steps) {
  if (!context.plan.checkpoint.path.empty()) say_server_part(context, server.parameter_count() > 0);
}

std::int64_t ServerCheckpoints::restore(std::int64_t parameters) {
  if (context_.plan.resume.empty()) return 0;
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

std::int64_t ServerCheckpoints::next_due() const {
  const std::int64_t every = context_.plan.checkpoint.every;
  return every > 0 ? std::min(last_, (saved_ / every + 1) * every) : last_;
}

void ServerCheckpoints::look() {
  if (!writes()) return;
  if (const std::int64_t stop = said_stop(context_); stop > 0) last_ = stop;
  const std::int64_t due = next_due();
  if (due == saved_ || !server_.is_after(due)) return;
  part_.begin(due);
  server_.visit_state([this](const StateRange& range) { part_.take(range); });
  part_.write(nlohmann::ordered_json::object());
  saved_ = due;
}

}  // namespace ringside::ps
