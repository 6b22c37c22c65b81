#include "ps/schemes/centred_replay.h"

#include <utility>

#include "core/base/error.h"

namespace ringside::ps {

CentredReplay::CentredReplay(const RankContext& context, std::int64_t period, bool may_be_fewer)
    : Centred(context, context.plan.defines),
      period_(period),
      may_be_fewer_(may_be_fewer),
      walk_(context.plan.history, context.plan.defines),
      workers_(static_cast<std::size_t>(context.plan.defines)) {}

void CentredReplay::attach(Model& model) {
  Centred::attach(model);
  centre_ = initial_centre(MemoryKind::parameter);
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    worker.centre = parameters_like_replicas(MemoryKind::workspace);
    worker.awaits.resize(ranges());
    worker.begins.resize(ranges());
    check_pushes(w);
  }
}

void CentredReplay::check_pushes(std::size_t worker) const {
  for (std::int64_t push = 0; push < walk_.pushes(worker); ++push) {
    const std::int64_t steps = walk_.steps(worker, push);
    const bool last = push + 1 == walk_.pushes(worker);
    if (steps > period_ || (steps < period_ && !may_be_fewer_ && !last))
      throw Error("the record of the run says that worker {} took {} steps for a push, not {}",
                  worker, steps, period_);
  }
}

/// A new process begins with moments of 0, and with the centre that it will have read.
void CentredReplay::take_seat(std::size_t w, std::int64_t first) {
  check_pushes(w);
  Worker& worker = workers_[w];
  worker.steps = first;
  worker.pushes = worker.local = 0;
  worker.evaluates = false;
  begin_moments_anew(static_cast<int>(w));
}

std::optional<StepAssignment> CentredReplay::next_assignment(std::int64_t) {
  const std::int64_t each = context().plan.train.accumulation / own_replicas();
  walk_.go_on([this](std::size_t range, const RangeEvent& event) { repeat(range, event); });
  for (std::size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    if (const auto number = walk_.came(w)) take_seat(w, *number);
    if (!walk_.has_read(w)) continue;
    const std::int64_t first = static_cast<std::int64_t>(w) * each;
    if (std::exchange(worker.evaluates, false))
      return StepAssignment{worker.steps - 1, first, each, false, true};
    if (worker.pushes == walk_.pushes(w)) continue;
    computing_ = w;
    return StepAssignment{worker.steps, first, each, true, false};
  }
  walk_.check_end();
  return {};
}

void CentredReplay::before_forward(std::size_t unit, const Pass& pass) {
  if (pass.training) return Centred::before_forward(unit, pass);
  const std::int64_t each = pass.micro_batches / own_replicas();
  bind(unit, workers_[static_cast<std::size_t>(pass.micro_batch / each)].centre);
}

bool CentredReplay::step(const StepInfo& info) {
  const auto w = static_cast<int>(computing_);
  update(w, info);
  Worker& worker = workers_[computing_];
  ++worker.steps;
  worker.evaluates = evaluates_after(context().plan.train, info.step);
  if (++worker.local == walk_.steps(computing_, worker.pushes)) {
    worker.local = 0;
    ++worker.pushes;
    offer(w);
    walk_.offer(computing_);
    walk_.ask(computing_);
  }
  if (worker.evaluates) walk_.ask(computing_);
  return true;
}

void CentredReplay::visit_parameters(const ParameterVisitor& visitor) {
  kernels().cast({.in = centre_, .out = workers_[0].centre});
  visit(workers_[0].centre, visitor);
}

Tensor CentredReplay::of_range(std::size_t range, const Tensor& model) const {
  const ChunkHistory& of = context().plan.history[range];
  return model.range(of.begin, of.count);
}

void CentredReplay::repeat(std::size_t range, const RangeEvent& event) {
  Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
  switch (event.kind) {
    case RangeEvent::Kind::accepted:
      worker.awaits[range] = true;
      return push(range, event);
    case RangeEvent::Kind::taken:
      return take(range, event.worker);
    case RangeEvent::Kind::merged:
      return merge(range);
    case RangeEvent::Kind::came:
      worker.awaits[range] = false;
      worker.begins[range] = true;
      return;
    case RangeEvent::Kind::read:
      if (worker.begins[range]) {
        worker.begins[range] = false;
        return set_values(event.worker, first_of(range), centre(range));
      }
      if (worker.awaits[range]) {
        worker.awaits[range] = false;
        return reply(range, event.worker);
      }
      kernels().cast({.in = centre(range), .out = of_range(range, worker.centre)});
      return;
    default:
      return;
  }
}

}  // namespace ringside::ps
