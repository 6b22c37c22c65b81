#include "experiments/tools/advise/device_memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "core/base/seconds_now.h"
#include "core/plan/mesh.h"
#include "core/plan/pipeline_plan.h"
#include "experiments/runner/registry/state_formula.h"

namespace ringside::tools::advise {
namespace {

std::string_view memory_words(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::parameter:
      return "parameters";
    case MemoryKind::gradient:
      return "gradients";
    case MemoryKind::optimizer:
      return "optimizer state";
    case MemoryKind::activation:
      return "activations";
    case MemoryKind::communication:
      return "what is gathered or sent";
    default:
      return name_of(kind);
  }
}

FullestWorker fullest_of(const std::vector<MemoryUse>& uses) {
  const auto fullest = std::ranges::max_element(uses, {}, &MemoryUse::total);
  return {.place = static_cast<int>(fullest - uses.begin()), .use = *fullest};
}

/// The model states of each worker of a replica, by formula.
std::vector<MemoryUse> states_of_stages(const Question& question, const RunPlan& plan) {
  const std::vector<UnitRange> stages = stages_of(plan, question.unit_parameters.size());
  std::vector<std::int64_t> parameters(static_cast<std::size_t>(plan.mesh.pipeline));
  const pipeline::Schedule schedule = schedule_of(plan);
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (std::size_t unit = stages[stage].first; unit < stages[stage].last; ++unit)
      parameters[static_cast<std::size_t>(schedule.ranks_of[stage])] +=
          question.unit_parameters[unit];
  std::vector<MemoryUse> out;
  for (std::size_t place = 0; place < parameters.size(); ++place)
    out.push_back(least_states(data_view(plan, static_cast<int>(place)), parameters[place]));
  return out;
}

FullestWorker fullest_worker(const Question& question, const runner::Rehearse& rehearse,
                             const Candidate& mesh) {
  FullestWorker out;
  try {
    const RunPlan plan = plan_of(question, mesh);
    out = fullest_of(states_of_stages(question, plan));
    if (static_cast<double>(out.use.total()) <= 1e9 * plan.cluster->device.memory_gb)
      return fullest_of(rehearse(plan));
    out.partial = true;
  } catch (const std::exception& error) {
    out.why = error.what();
  }
  return out;
}

}  // namespace

MemoryUse least_states(RunPlan plan, std::int64_t parameters) {
  const Offload offload = std::exchange(plan.train.offload, Offload::none);
  const auto formula = runner::state_formula(plan, parameters);
  const auto bytes = [](double value) { return static_cast<std::int64_t>(value); };
  MemoryUse out;
  if (!formula) {  // workers of servers keep no optimizer state
    const auto element = static_cast<std::int64_t>(size_of(parameter_dtype(plan.train)));
    out[MemoryKind::parameter] = out[MemoryKind::gradient] = element * parameters;
    return out;
  }
  out[MemoryKind::gradient] = bytes(formula->gradients);
  if (offload != Offload::parameters) out[MemoryKind::parameter] = bytes(formula->parameters);
  if (offload == Offload::none) out[MemoryKind::optimizer] = bytes(formula->optimizer);
  return out;
}

std::string lack_of_host_memory(const Question& question, const RunPlan& plan) {
  RunPlan whole = plan;
  whole.train.offload = Offload::none;
  const std::int64_t offloaded = least_states(std::move(whole), question.parameters).total() -
                                 least_states(plan, question.parameters).total();
  const std::int64_t sharing = std::min<std::int64_t>(plan.world, question.ranks_of_machine());
  const double needed = static_cast<double>(sharing * offloaded);
  const double room = 1e9 * question.cluster().host.memory_gb;
  if (needed <= room) return {};
  return fmt::format("what the ranks of a machine offload takes at least {} of their host's {}",
                     memory_text(needed), memory_text(room));
}

std::vector<FullestWorker> fullest_workers(const Question& question,
                                           const runner::Rehearse& rehearse,
                                           const std::vector<Candidate>& meshes) {
  std::vector<FullestWorker> out(meshes.size());
  std::atomic<std::size_t> next = 0;
  const double end = seconds_now() + question.seconds / 4;
  const auto work = [&] {
    for (std::size_t i = next++; i < meshes.size(); i = next++)
      if (seconds_now() < end)
        out[i] = fullest_worker(question, rehearse, meshes[i]);
      else
        out[i].late = true;
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < question.processes; ++i) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

std::string parts_of_memory(const MemoryUse& use) {
  std::vector<MemoryKind> kinds;
  for (std::size_t k = 0; k < memory_kinds; ++k) kinds.push_back(static_cast<MemoryKind>(k));
  std::ranges::stable_sort(kinds, std::ranges::greater{},
                           [&](MemoryKind kind) { return use[kind]; });
  std::vector<std::string> parts;
  for (const MemoryKind kind : kinds)
    if (use[kind] > 0 && use[kind] >= use.total() / 100)
      parts.push_back(
          fmt::format("{} of {}", memory_text(static_cast<double>(use[kind])), memory_words(kind)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string stage_memory_text(const Stages& stages, const FullestWorker& worker) {
  std::vector<std::int64_t> own;
  for (std::int64_t chunk = 0; chunk < stages.chunks; ++chunk)
    own.push_back(chunk * stages.ranks + worker.place);
  return fmt::format("{} {} {}{} {} of a device: {}", own.size() == 1 ? "stage" : "stages",
                     fmt::join(own, " and "), own.size() == 1 ? "takes" : "take",
                     worker.partial ? " at least" : "",
                     memory_text(static_cast<double>(worker.use.total())),
                     parts_of_memory(worker.use));
}

}  // namespace ringside::tools::advise
