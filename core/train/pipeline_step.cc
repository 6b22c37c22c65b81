#include "core/train/pipeline_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pipeline/validation_points.h"

namespace ringside {

using pipeline::Action;
using pipeline::Operation;

namespace {

/// What an action takes by the profile of a simulated run.
double stated_seconds(const Action& action, const StageProfile& profile) {
  switch (action.operation) {
    case Operation::forward:
      return 1e-3 * profile.f;
    case Operation::backward:
      return 1e-3 * (profile.b + profile.w);
    case Operation::input_gradient:
      return 1e-3 * profile.b;
    default:
      return 1e-3 * profile.w;
  }
}

}  // namespace

PipelineStep::PipelineStep(const RankContext& context, const Model& model, ModelPasses& passes)
    : context_(context),
      model_(model),
      passes_(passes),
      schedule_(context.pipeline->schedule()),
      rank_(context.pipeline->rank()),
      stages_(schedule_.stages_of(rank_)),
      points_(context.pipeline->validation() ? pipeline::validation_points(schedule_)
                                             : std::vector<std::size_t>{}),
      links_(context),
      tables_(context, model),
      times_(context.device, context.timeline) {
  passes.when_bound([this](std::size_t unit) { tables_.bound(unit); });
}

bool PipelineStep::is_last(int stage) const { return stage + 1 == schedule_.stages(); }

bool PipelineStep::has_losses() const { return is_last(stages_.back()); }

UnitRange PipelineStep::units_of(int stage) const {
  const auto own = static_cast<std::size_t>(std::ranges::find(stages_, stage) - stages_.begin());
  const std::vector<std::size_t>& begins = model_.part->stages;
  return {begins[own], own + 1 < begins.size() ? begins[own + 1] : model_.units.size()};
}

std::vector<Loss> PipelineStep::train(const Pass& pass, const Loader& training,
                                      const std::function<bool()>& may_go_on) {
  const auto rank = static_cast<std::size_t>(rank_);
  const std::vector<Action>& actions = schedule_.actions[rank];
  times_.begin_step(sent());
  begin();
  for (std::size_t i = 0; i < actions.size();) {
    if (!points_.empty() && i == points_[rank] && !may_go_on()) {
      give_up();
      begin();
      i = 0;
    } else {
      add_up_late(i);
      carry_out(actions[i++], pass, training);
    }
  }
  add_up_late(actions.size());
  waited([&] { end_sends(); });
  return std::move(losses_);
}

void PipelineStep::begin() {
  losses_.assign(has_losses() ? static_cast<std::size_t>(schedule_.micro_batches) : 0, {});
  tables_.begin_pass();
}

/// Takes what others have sent before their points, so that no message of this attempt is under way
/// in the next one.
void PipelineStep::give_up() {
  const auto span = context_.timeline.traced(
      "pipeline", [] { return std::string("give up the step's begin"); }, {.track = "pipeline"});
  for (const Action& receive : pipeline::receives_of_given_up(schedule_, points_, rank_))
    move(receive);
  links_.drop();
  tables_.drop(
      [this](int stage) { return pipeline::begins_before_point(schedule_, points_, stage); });
  under_way_.clear();
}

PipelineRecord PipelineStep::record() const {
  PipelineRecord out = times_.record();
  if (const PostValidation* const validation = context_.pipeline->validation())
    out.put_right = validation->amended();
  return out;
}

Timeline::Scope PipelineStep::traced(const Action& action, bool is_rest) {
  const std::string_view operation = name_of(action.operation);
  return context_.timeline.traced(
      "pipeline",
      [&] {
        return fmt::format("{}{} of stage {}{}", operation, action.micro_batch, action.stage,
                           is_rest ? ": table" : "");
      },
      {.track = "pipeline", .operation = operation, .sequence = action.micro_batch + 1});
}

void PipelineStep::carry_out(const Action& action, const Pass& pass, const Loader& training) {
  switch (action.operation) {
    case Operation::forward:
      return forward(action, pass, training);
    case Operation::backward:
      return backward(action, /*halves=*/false);
    case Operation::input_gradient:
      return backward(action, /*halves=*/true);
    case Operation::weight_gradient:
      return weight_gradients(action);
    default:
      return move(action);
  }
}

void PipelineStep::move(const Action& action) {
  const auto span = traced(action);
  const int stage = action.stage;
  const std::int64_t micro_batch = action.micro_batch;
  switch (action.operation) {
    case Operation::send_forward:
      return links_.send(Way::forward, stage, micro_batch);
    case Operation::receive_forward:
      return links_.receive(Way::forward, stage, micro_batch);
    case Operation::send_backward:
      return links_.send(Way::backward, stage, micro_batch);
    case Operation::receive_backward:
      tables_.receive_gradients(stage);
      return links_.receive(Way::backward, stage, micro_batch);
    default:
      return;  // it computes
  }
}

template <class Work>
void PipelineStep::waited(const Work& work) {
  const Mark begin = context_.timeline.now();
  work();
  times_.add_wait(begin, context_.timeline.now());
}

Tensor PipelineStep::take(Way way, int stage, std::int64_t micro_batch, SideValues& side) {
  Tensor value;
  waited([&] { value = links_.take(way, stage, micro_batch, side); });
  return value;
}

/// The time that a profile states for an action has that of its rest.
template <class Work>
void PipelineStep::timed(const Action& action, bool is_rest, const Work& work) {
  const PipelineConfig& config = context_.pipeline->whole().plan.pipeline;
  const auto span = traced(action, is_rest);
  const Mark begin = context_.timeline.now();
  if (config.has_profile()) {
    const auto computed = context_.timeline.scope(Activity::compute, text_of(action));
    context_.device.take_instead(is_rest ? 0 : stated_seconds(action, config.profile), work);
  } else {
    work();
  }
  times_.add(action, is_rest, begin, context_.timeline.now());
}

UnitRange PipelineStep::rest_of(const Action& action, const MicroBatch& of) const {
  const std::size_t first = of.units.first;
  return {first, first + tables_.rest_of(action.stage, action.micro_batch).units};
}

template <class Work>
void PipelineStep::do_rest(const Action& action, MicroBatch& of, const Work& work) {
  waited([&] { tables_.take_gradients(action.stage, of.side); });
  timed(action, /*is_rest=*/true, work);
  tables_.receive_gradients(action.stage);
}

void PipelineStep::forward(const Action& action, const Pass& pass, const Loader& training) {
  const int stage = action.stage;
  const std::int64_t micro_batch = action.micro_batch;
  links_.let_go();
  MicroBatch& of = under_way_[{stage, micro_batch}];
  times_.note_under_way(stage, std::ranges::count_if(under_way_, [&](const auto& one) {
                          return one.first.first == stage;
                        }));
  Pass own = pass;
  own.micro_batch = micro_batch;
  of = passes_.begin(own, pass.step, training, units_of(stage));
  waited([&] { tables_.take_values(stage, of.side); });
  Tensor value = stage == 0 ? Tensor{} : take(Way::forward, stage, micro_batch, of.side);
  timed(action, /*is_rest=*/false, [&] { value = passes_.forward(of, std::exchange(value, {})); });
  if (!is_last(stage))
    return links_.put(Way::forward, stage, micro_batch, std::move(value), of.side);
  Loss loss = of.losses.front();
  loss.gradient = {};  // that stays with the micro-batch
  losses_[static_cast<std::size_t>(micro_batch)] = std::move(loss);
}

void PipelineStep::backward(const Action& action, bool halves) {
  const int stage = action.stage;
  const std::int64_t micro_batch = action.micro_batch;
  MicroBatch& of = under_way_.at({stage, micro_batch});
  links_.let_go();
  tables_.receive_gradients(stage);
  Tensor gradient = is_last(stage) ? Tensor{} : take(Way::backward, stage, micro_batch, of.side);
  const auto of_units = [&](UnitRange units, bool divided) {
    gradient = passes_.backward(of, std::exchange(gradient, {}), units, divided);
  };
  const UnitRange rest = rest_of(action, of);
  const bool has_rest = !halves && rest.last > rest.first;
  const bool is_late = tables_.rest_of(stage, micro_batch).is_late;
  timed(action, /*is_rest=*/false, [&] {
    of_units({has_rest ? rest.last : of.units.first, of.units.last}, halves);
    if (has_rest && is_late) of_units(rest, /*divided=*/true);
  });
  if (has_rest && !is_late) do_rest(action, of, [&] { of_units(rest, /*divided=*/false); });
  if (stage > 0) links_.put(Way::backward, stage, micro_batch, std::move(gradient), of.side);
  if (!halves) end(action, of);
}

void PipelineStep::weight_gradients(const Action& action) {
  MicroBatch& of = under_way_.at({action.stage, action.micro_batch});
  const UnitRange rest = rest_of(action, of);
  timed(action, /*is_rest=*/false, [&] {
    passes_.weight_gradients(of, {rest.last, of.units.last});
  });
  if (rest.last > rest.first && !tables_.rest_of(action.stage, action.micro_batch).is_late)
    do_rest(action, of, [&] { passes_.weight_gradients(of, rest); });
  end(action, of);
}

void PipelineStep::end(const Action& action, MicroBatch& of) {
  tables_.send_gradients(action.stage, of.side);
  const TableLinks::Rest rest = tables_.rest_of(action.stage, action.micro_batch);
  MicroBatches::node_type left = under_way_.extract({action.stage, action.micro_batch});
  if (rest.is_late) late_.push_back({action, rest.before, std::move(left)});
}

void PipelineStep::add_up_late(std::size_t next) {
  for (auto one = late_.begin(); one != late_.end();) {
    if (one->before > next) {
      ++one;
      continue;
    }
    MicroBatch& of = one->of.mapped();
    do_rest(one->action, of, [&] { passes_.weight_gradients(of, rest_of(one->action, of)); });
    one = late_.erase(one);
  }
}

void PipelineStep::begin_evaluation() { tables_.begin_pass(); }

void PipelineStep::end_evaluation() { end_sends(); }

void PipelineStep::end_sends() {
  links_.finish_sends();
  tables_.finish_sends();
}

LossValue PipelineStep::evaluate(const Pass& pass, std::int64_t index, const Loader& held_out) {
  passes_.count_targets(held_out, index);
  const std::int64_t number = evaluated_++;
  LossValue held_out_value;
  for (const int stage : stages_) {
    MicroBatch of = passes_.begin(pass, index, held_out, units_of(stage));
    const bool comes =
        stage > 0 && schedule_.ranks_of[static_cast<std::size_t>(stage - 1)] != rank_;
    if (comes) links_.receive(Way::forward, stage, number);
    tables_.take_values(stage, of.side);
    Tensor value = stage == 0 ? Tensor{} : links_.take(Way::forward, stage, number, of.side);
    value = passes_.forward(of, std::move(value));
    if (is_last(stage)) {
      held_out_value = value_of(context_.device, of.losses[0]);
      continue;
    }
    links_.put(Way::forward, stage, number, std::move(value), of.side);
    if (schedule_.ranks_of[static_cast<std::size_t>(stage + 1)] == rank_) continue;
    // What the micro-batch before has sent is there by now, as this one follows it.
    links_.finish_sends();
    links_.send(Way::forward, stage, number);
  }
  return held_out_value;
}

}  // namespace ringside
