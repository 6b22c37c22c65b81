#include "core/scheme/whole_update.h"

#include "core/scheme/parameter_map.h"
#include "core/scheme/worker_optimizer.h"

namespace ringside {

WholeUpdate::WholeUpdate(const RankContext& context, const Model& model, const Replica& replica,
                         const Tensor& total, std::int64_t workers)
    : context_(context),
      model_(model),
      replica_(replica),
      total_(total),
      optimizer_(worker_optimizer(context, workers, replica.parameters(), parameter_map(model))) {}

ParameterRange WholeUpdate::range(std::int64_t begin, std::int64_t count) const {
  return {begin, replica_.parameters().range(begin, count), total_.range(begin, count)};
}

ParameterRange WholeUpdate::range_of(std::size_t unit) const {
  return range(model_.first_parameter(unit), replica_.parameters(unit).count());
}

bool WholeUpdate::step(const StepInfo& info) {
  const auto span = context_.timeline.scope(Activity::optimizer, "optimizer");
  const ParameterRange all{0, replica_.parameters(), total_};
  const bool finite = settle_rounds(*optimizer_, all, info, [](std::span<double>) {});
  if (finite) optimizer_->update(all, info);
  return finite;
}

void WholeUpdate::finish(std::size_t unit) {
  optimizer_->finish(model_.first_parameter(unit), replica_.parameters(unit).count());
}

void WholeUpdate::finish_all() { optimizer_->finish(0, total_.count()); }

void WholeUpdate::visit_state(int holder, int holders, const StateVisitor& visit) {
  visit_optimizer(context_, *optimizer_, {{0, 0, replica_.parameters()}},
                  {.holder = holder, .holders = holders}, visit);
}

void WholeUpdate::restored(std::int64_t skipped) {
  const ParameterRange all{0, replica_.parameters(), {}};
  optimizer_->restored({&all, 1}, skipped);
}

void WholeUpdate::visit(const SyncScheme::ParameterVisitor& visit) {
  finish_all();
  for (std::size_t u = 0; u < model_.units.size(); ++u)
    visit(0, *model_.units[u], replica_.parameters(u));
}

}  // namespace ringside
