#include "peer/schemes/rule_replicas.h"

#include <utility>

namespace ringside::peer {

void RuleReplicas::attach(Model& model) {
  LocalReplicas::attach(model);
  const RunPlan& plan = context().plan;
  for (int r = 0; r < own_replicas(); ++r) {
    rules_.push_back(make_({.device = context().device,
                            .model = model,
                            .worker = worker_of(r),
                            .workers = plan.world * own_replicas(),
                            .steps = plan.train.steps,
                            .moments = moments(r).size()}));
    rules_.back()->attach(values(r));
  }
  fragments_ = rules_[0]->fragments();
  given_after_.resize(fragments_.size());
}

void RuleReplicas::before_forward(std::size_t unit, const Pass& pass) {
  LocalReplicas::before_forward(unit, pass);
  if (pass.training && unit == 0 && pass.micro_batch == 0 && rules_[0]->delay() > 0)
    begin_all(pass.step, std::vector<bool>(fragments_.size()));
}

void RuleReplicas::visit_state(const StateVisitor& visit) {
  LocalReplicas::visit_state(visit);
  const int replicas = context().plan.world * own_replicas();
  for (int r = 0; r < own_replicas(); ++r)
    at(r).visit_state([&](const RuleState& state) {
      visit({.name = std::string(state.name),
             .replica = state.common ? -1 : worker_of(r),
             .values = state.values,
             .device = &context().device,
             .holder = state.common ? worker_of(r) : 0,
             .holders = state.common ? replicas : 1,
             .begins_as = std::string(state.begins_as),
             .of_elements = state.values.count() == model().parameter_count()});
    });
  if (rules_[0]->delay() <= 1) return;  // nothing is on its way between two steps
  std::int64_t begin = 0;               // of the fragment's messages
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    // One more than the steps after which the fragment was given; 0: it is not on its way.
    std::uint32_t given =
        given_after_[f] ? static_cast<std::uint32_t>(*given_after_[f] + 1) : std::uint32_t{0};
    const StateRange like{.name = "given_after",
                          .begin = 2 * static_cast<std::int64_t>(f),
                          .holder = context().self().worker,
                          .holders = context().plan.world,
                          .of_options = true};
    visit_number(context().device, like, given, 1, visit);
    given_after_[f].reset();
    if (given > 0) {
      given_after_[f] = given - 1;
      visit_messages(f, begin, visit);
    }
    begin += rules_[0]->message_size(fragments_[f]);
  }
}

std::vector<SchemeFigure> RuleReplicas::figures() const {
  std::vector<SchemeFigure> mean;
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    std::vector<SchemeFigure> own = rules_[r]->figures();
    if (!distances_.empty())
      for (SchemeFigure& one : distances_[r].figures()) own.push_back(std::move(one));
    if (mean.empty()) mean.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double before = mean[i].value;
      mean[i] = own[i];
      mean[i].value = before + own[i].value / static_cast<double>(rules_.size());
    }
  }
  return mean;
}

std::vector<Bucket> RuleReplicas::buckets() const {
  std::vector<Bucket> out;
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    out.push_back(
        {.name = name_of_fragment(f), .begin = fragments_[f].begin, .count = fragments_[f].count});
  return out;
}

std::string RuleReplicas::name_of_fragment(std::size_t fragment) const {
  return fragments_.size() == 1 ? name_ : fmt::format("{} {}", name_, fragment);
}

void RuleReplicas::give(int replica, std::size_t fragment, const Tensor& message) {
  const Fragment& range = fragments_[fragment];
  const auto span = context().timeline.scope(Activity::encoding, "give " + name_);
  at(replica).give(range, range.of(state(replica, range)), message);
}

void RuleReplicas::take(int replica, std::size_t fragment, const Received& received) {
  const Fragment& range = fragments_[fragment];
  const auto span = context().timeline.scope(Activity::encoding, "take " + name_);
  at(replica).take(range, received, range.of(state(replica, range)));
  if (range.moment == 0) round_parameters(replica, range.begin, range.count);
}

void RuleReplicas::synchronise(const StepInfo& info) {
  const std::int64_t done = info.step + 1;
  const bool last = done == context().plan.train.steps;
  const std::int64_t delay = rules_[0]->delay();
  correct();
  if (rules_[0]->measures(done)) measure();
  // What is on its way after the last step is taken and not given again.
  std::vector<bool> taken(fragments_.size());
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    if (given_after_[f] && (last || *given_after_[f] + delay == done)) {
      end(f, last);
      taken[f] = true;
    }
  if (!last && delay > 0) return;  // the next step begins with what is given now
  begin_all(done, taken);
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    if (given_after_[f]) end(f, last);
}

void RuleReplicas::correct() {
  if (!rules_[0]->corrects()) return;
  const auto span = context().timeline.scope(Activity::encoding, "correct " + name_);
  for (int r = 0; r < own_replicas(); ++r) {
    at(r).correct(values(r));
    round_parameters(r);
  }
}

void RuleReplicas::measure() {
  for (int r = static_cast<int>(distances_.size()); r < own_replicas(); ++r)
    distances_.emplace_back(context().device, model().parameter_count());
  const Tensor sum = sum_of_replicas();
  const auto span = context().timeline.scope(Activity::encoding, "measure the distance");
  const float share = 1.0F / static_cast<float>(context().plan.world * own_replicas());
  for (int r = 0; r < own_replicas(); ++r)
    distances_[static_cast<std::size_t>(r)].measure(values(r), sum, share);
}

void RuleReplicas::begin_all(std::int64_t done, const std::vector<bool>& without) {
  for (std::size_t f = 0; f < fragments_.size(); ++f)
    if (!without[f] && rules_[0]->gives(f, done)) {
      given_after_[f] = done;
      begin(f, done);
    }
}

void RuleReplicas::end(std::size_t fragment, bool last) {
  finish(fragment, last);
  given_after_[fragment].reset();
}

std::vector<Tensor> RuleReplicas::moments(int replica) const {
  std::vector<Tensor> out;
  for (const OptimizerState& state : optimizer(replica).state())
    if (state.name != master_values) out.push_back(state.values);
  return out;
}

Tensor RuleReplicas::state(int replica, const Fragment& fragment) const {
  return fragment.moment == 0 ? values(replica) : moments(replica)[fragment.moment - 1];
}

}  // namespace ringside::peer
