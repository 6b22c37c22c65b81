#include "ps/schemes/replayed_servers.h"

#include <algorithm>
#include <utility>

#include "core/optim/optimizers.h"
#include "core/scheme/parameter_map.h"
#include "ps/schemes/consistency_plan.h"

namespace ringside::ps {

ReplayedServers::ReplayedServers(const RankContext& context, const PsOptions& options,
                                 const Model& model)
    : device_(context.device), options_(options), asp_(options.consistency == Consistency::asp) {
  const RunPlan& plan = context.plan;
  const ConsistencyRules rules = rules_of(options);
  const int world = plan.defines;
  wanted_ = static_cast<std::size_t>(asp_ ? 1 : world - rules.backup_workers);
  parameters_ =
      device_.tensor({model.parameter_count()}, MemoryKind::parameter, parameter_dtype(plan.train));
  const auto initial = initial_values(context);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u);
    initial->write(*model.units[u], first, 0,
                   parameters_.range(first, model.units[u]->layout().count()));
  }
  for (const ChunkHistory& history : plan.history) {
    Range range{parameters_.range(history.begin, history.count), history.begin};
    range.workers.resize(static_cast<std::size_t>(world));
    for (Worker& worker : range.workers)
      if (options.delay_compensation > 0) worker.values = copy_of(range.parameters);
    ranges_.push_back(std::move(range));
  }
  const auto [optimizer, updates] = update_rules(plan.optimizer, rules, plan.train.steps, world);
  optimizer_ =
      make_optimizer(optimizer, {updates, world}, device_, parameters_, parameter_map(model));
}

void ReplayedServers::push(std::size_t index, int worker, std::int64_t number,
                           const Tensor& gradient, bool accepted) {
  Range& range = ranges_[index];
  Worker& from = worker_of(range, worker);
  from.next = number + 1;
  from.begins = false;
  if (accepted)
    range.waiting.push_back(
        {worker, asp_ ? range.version : number, copy_of(gradient), from.version});
  go_on(range);
}

void ReplayedServers::read(std::size_t index, int worker, const Tensor& out) {
  Range& range = ranges_[index];
  Worker& reader = worker_of(range, worker);
  device_.kernels().copy({.in = range.parameters, .out = out});
  reader.version = range.version;
  if (reader.values) reader.values = copy_of(range.parameters);
}

void ReplayedServers::leave(std::size_t index, int worker) {
  worker_of(ranges_[index], worker).gone = true;
  go_on(ranges_[index]);
}

void ReplayedServers::skip(std::size_t index, int worker, std::int64_t number) {
  worker_of(ranges_[index], worker).next = number;
  go_on(ranges_[index]);
}

void ReplayedServers::come(std::size_t index, int worker, std::int64_t first) {
  Worker& newcomer = worker_of(ranges_[index], worker);
  newcomer.gone = false;
  newcomer.next = first;
  newcomer.begins = options_.backup_workers > 0;
  go_on(ranges_[index]);
}

std::int64_t ReplayedServers::newest(int worker) const {
  std::int64_t newest = 0;
  for (const Range& range : ranges_)
    newest = std::max(newest, range.workers[static_cast<std::size_t>(worker)].version);
  return newest;
}

void ReplayedServers::go_on(Range& range) {
  while (update(range)) {
  }
}

/// Makes the range's next update if its gradients are there: the first ones that came, as many as
/// are wanted, or fewer if no worker is left that could push another. They are added up in the
/// order of workers.
bool ReplayedServers::update(Range& range) {
  std::vector<Gradient> gradients;
  for (const Gradient& one : range.waiting)
    if (one.update == range.version && gradients.size() < wanted_) gradients.push_back(one);
  const auto may_push = [&](const Worker& worker) {
    return !worker.gone && !worker.begins && worker.next <= range.version;
  };
  if (gradients.size() < wanted_ &&
      (range.waiting.empty() || std::any_of(range.workers.begin(), range.workers.end(), may_push)))
    return false;
  std::sort(gradients.begin(), gradients.end(),
            [](const auto& a, const auto& b) { return a.worker < b.worker; });
  if (!gradients.empty()) apply(range, gradients);
  std::erase_if(range.waiting, [&](const auto& one) { return one.update == range.version; });
  ++range.version;
  return true;
}

void ReplayedServers::apply(Range& range, const std::vector<Gradient>& gradients) {
  const Kernels& kernels = device_.kernels();
  const Tensor sum = gradients[0].values;
  for (std::size_t i = 1; i < gradients.size(); ++i)
    kernels.add({.in = gradients[i].values, .out = sum});
  const std::int64_t stale = range.version - gradients[0].read_version;
  if (options_.delay_compensation > 0 && stale > 0)
    kernels.compensate_delay({.gradients = sum,
                              .now = range.parameters,
                              .read = worker_of(range, gradients[0].worker).values,
                              .out = sum,
                              .scale = static_cast<float>(options_.delay_compensation)});
  const bool divides = asp_ && options_.staleness_lr == StalenessLr::inverse;
  optimizer_->update(
      {range.begin, range.parameters, sum},
      {.step = range.version,
       .loss_scale = static_cast<float>(gradients.size()) / static_cast<float>(wanted_),
       .lr_factor = divides ? 1 / (1 + static_cast<double>(stale)) : 1});
}

Tensor ReplayedServers::copy_of(const Tensor& values) const {
  Tensor copy = device_.tensor(values.shape(), MemoryKind::workspace, values.dtype());
  device_.kernels().copy({.in = values, .out = copy});
  return copy;
}

}  // namespace ringside::ps
