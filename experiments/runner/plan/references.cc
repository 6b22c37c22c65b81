#include "experiments/runner/plan/references.h"

#include <algorithm>
#include <set>

#include "core/base/utf8.h"
#include "core/plan/definition.h"
#include "core/plan/faults.h"
#include "core/plan/mesh.h"
#include "core/plan/same_run.h"
#include "core/plan/worlds.h"
#include "core/scheme/single.h"
#include "experiments/runner/plan/labels.h"
#include "experiments/runner/plan/one_run.h"

namespace ringside::runner {
namespace {

/// The settings of the run's case and of the sweep: options of its scheme, or all others but
/// train.offload and those of the mesh, which references leave out.
std::vector<Setting> settings_of(const RunPlan& run, bool options) {
  std::vector<Setting> out = run.listing.set;
  out.insert(out.end(), run.listing.swept.begin(), run.listing.swept.end());
  std::erase_if(out, [&](const Setting& one) {
    return one.key.starts_with("scheme.") != options || one.key == "train.offload" ||
           one.key.starts_with("mesh.") || one.key.starts_with("pipeline.");
  });
  return out;
}

/// Takes those settings away that `others` has not.
void keep_common(std::vector<Setting>& settings, const std::vector<Setting>& others) {
  std::erase_if(settings, [&](const Setting& one) {
    return std::find(others.begin(), others.end(), one) == others.end();
  });
}

}  // namespace

RunPlan plan_definition(const RunPlan& run) {
  RunPlan plan = definition_of(run);
  if (run.program && !plan.program)  // the program needs the environment of its ranks
    plan.ranks[0].environment = find_device(plan.device.kind).environment(plan, 0);
  plan.listing.published.clear();
  plan.listing.swept.clear();  // runs at other points of the sweep may have the same definition
  const std::vector<Setting> options = settings_of(run, true);
  plan.id = label_with(fmt::format("{}-x{}-definition", run.scheme, plan.defines), options);
  plan.listing.label =
      label_with(fmt::format("{} x{} (definition)", run.scheme, plan.defines), options);
  return plan;
}

RunPlan plan_single_for(const AskedRun& asked) {
  const int replicas = data_world(asked.plan);
  ExperimentConfig changed = *asked.config;
  changed.train.offload = Offload::none;
  changed.checkpoint = {};
  changed.faults = {};
  changed.faults.plan = poisons_for_definition(asked.plan);
  changed.train.shares = asked.plan.train.shares;  // speeds are those of the run's devices
  changed.train.weights = asked.plan.train.weights;
  // Shares by speed may come out equal in more micro-batches than equal shares would need.
  if (changed.train.shares != Shares::equal || asked.config->train.shares == Shares::speed)
    changed.train.accumulation = asked.plan.train.accumulation;
  changed.scheme_options[std::string(reference_scheme)] = SingleOptions{.replicas = replicas};
  RunPlan plan = plan_run(changed, find_scheme(reference_scheme), 1, 0);
  plan.purpose = Purpose::reference;
  plan.id = fmt::format("{}-x{}", reference_scheme, replicas);
  if (const std::int64_t group = plan.model.batch_norm_group; group > 1) {
    plan.id += fmt::format("-g{}", group);
    plan.listing.label += fmt::format(" (norms of {})", group);
  }
  return plan;
}

std::vector<RunPlan> missing_references(const std::vector<AskedRun>& asked) {
  struct Shared {
    RunPlan plan;
    std::vector<Setting> first, common;  // settings of the first of its runs, and of all of them
    std::string label;                   // of the first of its runs
  };
  std::vector<Shared> references;
  using Fits = bool (*)(const RunPlan& run, const RunPlan& reference);
  const auto add = [&](const AskedRun& run, Fits fits, auto make) {
    const bool is_there = std::any_of(asked.begin(), asked.end(), [&](const AskedRun& other) {
      return fits(run.plan, other.plan);
    });
    if (is_there) return;
    const std::vector<Setting> settings = settings_of(run.plan, false);
    const auto known = std::find_if(references.begin(), references.end(),
                                    [&](const Shared& one) { return fits(run.plan, one.plan); });
    if (known != references.end())
      keep_common(known->common, settings);
    else
      references.push_back({make(run), settings, settings, run.plan.listing.label});
  };
  for (const AskedRun& run : asked) {
    // A run that is replayed is its own definition's source: the replay comes after it. So is one
    // whose world changes.
    if (!computes(run.plan) || run.plan.promise == Promise::replayed || is_elastic(run.plan))
      continue;
    if (lacks_definition(run.plan)) continue;
    if (run.plan.sums.unknown_order) {
      add(run, equals_to_rounding, plan_single_for);
      continue;
    }
    if (!has_own_definition(run.plan)) {
      add(run, must_equal, plan_single_for);
      continue;
    }
    if (run.plan.promise == Promise::same_run) add(run, equals_to_rounding, plan_single_for);
    add(run, must_equal, [](const AskedRun& one) { return plan_definition(one.plan); });
  }
  std::vector<RunPlan> out;
  std::set<std::string> labels;
  FileNames names;
  for (auto& [plan, first, common, of] : references) {
    plan.listing.set = common;
    std::string label = label_with(plan.listing.label, common);
    if (labels.contains(label)) {
      plan.listing.set = first;
      label = label_with(plan.listing.label, first);
    }
    // A case that sets many keys is named by its label. A label of all settings would make a table
    // too wide to read.
    constexpr std::size_t longest = 60;
    const std::string of_case = fmt::format("{} (of {})", plan.listing.label, of);
    if (characters_of(label) > longest && characters_of(of_case) < characters_of(label)) {
      plan.id = fmt::format("{} (of {})", plan.id, of);
      label = of_case;
    } else {
      plan.id = label_with(plan.id, plan.listing.set);
    }
    plan.id = names.of_label(plan.id);
    plan.listing.label = plan.listing.family = label;
    labels.insert(label);
    out.push_back(std::move(plan));
  }
  return out;
}

}  // namespace ringside::runner
