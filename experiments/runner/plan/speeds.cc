#include "experiments/runner/plan/speeds.h"

#include <functional>
#include <vector>

#include "core/data/loader.h"
#include "core/plan/places.h"
#include "core/scheme/loss.h"
#include "core/sim/uneven.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {
namespace {

/// More memory (in GB) than any model needs, and the most that a cluster may have.
constexpr double unlimited_gb = 1e9;

/// Enqueues a forward and a backward of the whole model over `samples` samples, as a trainer does,
/// and calls `after` with the number of each unit after its forward, and again after its backward.
void pass_over(const Model& model, Device& device, std::int64_t samples, const TrainConfig& train,
               const std::function<void(std::size_t)>& after) {
  const DType dtype = parameter_dtype(train);
  const std::int64_t count = model.parameter_count();
  const Tensor parameters = device.tensor({count}, MemoryKind::parameter, dtype);
  const Tensor gradients = device.tensor({count}, MemoryKind::gradient, dtype);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t first = model.first_parameter(u), own = model.units[u]->layout().count();
    model.units[u]->bind(parameters.range(first, own), gradients.range(first, own));
  }
  std::int64_t targets = 0;
  for (const LossTerm& term : model.terms) targets += samples * term.rows;
  Tensor x =
      device.tensor(stacked(samples, model.input), MemoryKind::data, input_dtype(model.task));
  const bool full = train.recompute == Recompute::full;
  std::vector<Tensor> inputs;
  SideValues side(model.edges.size());
  std::vector<Saved> saved(model.units.size(), Saved(side));
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    inputs.push_back(x);
    const Pass pass{.keep = !full || u + 1 == model.units.size(),
                    .keep_attention = train.recompute != Recompute::attention};
    x = model.units[u]->forward(x, pass, saved[u]);
    after(u);
  }
  const Loss loss = cross_entropy(device, x, device.tensor({targets}, MemoryKind::data, DType::i32),
                                  {.terms = model.terms, .global_batch = samples}, true);
  x = loss.gradient;
  for (std::size_t u = model.units.size(); u-- > 0;) {
    if (full && u + 1 < model.units.size())
      model.units[u]->forward(inputs[u], Pass{.again = true}, saved[u]);
    x = model.units[u]->backward(x, saved[u]);
    after(u);
  }
}

/// A run of the plan's worker alone, with all the memory that it needs.
RunPlan alone(const RunPlan& plan, int worker) {
  RunPlan out = plan;
  out.ranks = {{.rank = 0, .worker = worker}};
  out.sim.numerics = false;
  out.model.batch_norm_group = 1;
  out.cluster->device.memory_gb = unlimited_gb;
  for (sim::OtherMachines& other : out.cluster->others) other.device.memory_gb = unlimited_gb;
  return out;
}

/// The first of the machines whose devices are of another kind than the cluster's, among them
/// `machine`; -1 if that has the cluster's.
std::int64_t kind_of(const sim::ClusterSpec& cluster, std::int64_t machine) {
  for (const sim::OtherMachines& other : cluster.others)
    if (machine >= other.first && machine < other.first + other.count) return other.first;
  return -1;
}

}  // namespace

double MicroBatchTimes::seconds(int worker, std::int64_t samples) {
  const sim::ClusterSpec& cluster = *plan_.cluster;
  const auto [machine, device] = place_of_worker(cluster, worker);
  const auto [known, is_new] = known_.try_emplace(
      {kind_of(cluster, machine), slowness_of(cluster, machine, device), samples});
  if (is_new) known->second = measure(worker, samples);
  return known->second;
}

double MicroBatchTimes::measure(int worker, std::int64_t samples) const {
  const RunPlan plan = alone(plan_, worker);
  const auto device = find_device(plan.device.kind).make(plan, 0, nullptr);
  const Model model = make_model(plan.model, *device);
  const double start = device->clock().now();
  pass_over(model, *device, samples, plan.train, [](std::size_t) {});
  return device->clock().now() - start;
}

std::vector<double> seconds_of_units(const RunPlan& of) {
  const RunPlan plan = alone(of, 0);
  const auto device = find_device(plan.device.kind).make(plan, 0, nullptr);
  const Model model = make_model(plan.model, *device);
  std::vector<double> out(model.units.size());
  double before = device->clock().now();
  pass_over(model, *device, plan.train.micro_batch, plan.train, [&](std::size_t unit) {
    const double now = device->clock().now();
    out[unit] += now - before;
    before = now;
  });
  return out;
}

}  // namespace ringside::runner
