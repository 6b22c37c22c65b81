#include "experiments/runner/plan/planner.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/num/random.h"
#include "core/plan/device_traits.h"
#include "core/plan/same_run.h"
#include "experiments/runner/plan/checks.h"
#include "experiments/runner/plan/labels.h"
#include "experiments/runner/plan/one_run.h"
#include "experiments/runner/plan/planned_cases.h"
#include "experiments/runner/plan/references.h"

namespace ringside::runner {
namespace {

/// Whether the plans differ at most in their names.
bool same_but_named(const RunPlan& a, const RunPlan& b) {
  RunPlan renamed = b;
  renamed.listing.label = a.listing.label;
  renamed.listing.family = a.listing.family;
  renamed.listing.set = a.listing.set;
  renamed.listing.swept = a.listing.swept;
  renamed.listing.published = a.listing.published;
  return same_case(a, renamed);
}

/// Does what plan_run() does; errors begin with the case.
RunPlan plan_line(const PlannedCase& line, int world, const std::vector<MeasuredSpeeds>& measured) {
  try {
    check_config(line.config);
    check_target(line.config);
    RunPlan plan = plan_run(line.config, *line.scheme, world, 0, measured);
    name_run(plan, line);
    return plan;
  } catch (const Error& error) {
    throw Error("{}{}", describe(line), error.what());
  }
}

/// Plans every case at each of its worlds, once. Cases whose plans are equal become one, with the
/// label that one of them gives. Throws Error if two of them give different labels. A case whose
/// shares follow from a measurement stays separate from cases that happen to get the same shares,
/// because this cannot be known beforehand. Ids have no world, seed and repeat yet.
std::vector<AskedRun> asked_runs(const std::vector<PlannedCase>& lines,
                                 const std::vector<MeasuredSpeeds>& measured) {
  std::vector<AskedRun> asked;
  std::vector<std::string> given;  // the label that a case gives to each of `asked`, or empty
  std::vector<bool> measures;      // whether the shares of each of `asked` are measured
  std::map<std::pair<std::string, int>, std::ptrdiff_t> named;  // positions in `asked`
  FileNames names;
  for (const PlannedCase& line : lines)
    for (const int world : line.worlds) {
      RunPlan plan = plan_line(line, world, measured);
      const bool is_measured = !line.config.cluster && line.config.train.shares == Shares::speed &&
                               waits_for_speeds(plan_line(line, world, {}));
      const auto known = std::find_if(asked.begin(), asked.end(), [&](const AskedRun& other) {
        const auto position = static_cast<std::size_t>(&other - asked.data());
        return measures[position] == is_measured && same_but_named(other.plan, plan);
      });
      if (known != asked.end() && line.label.empty()) continue;
      const auto index = known - asked.begin();
      given.resize(asked.size() + 1);
      measures.resize(asked.size() + 1, is_measured);
      std::string& label = given[static_cast<std::size_t>(index)];
      if (!label.empty() && label != line.label)
        throw Error("{}the case labelled '{}' has the same runs at world {}; leave one case out",
                    describe(line), label, world);
      label = line.label;
      if (named.try_emplace({plan.listing.label, world}, index).first->second != index)
        throw Error("{}another line is called '{}' at world {} too; choose another label",
                    describe(line), plan.listing.label, world);
      const bool plain = line.label.empty() && line.set.empty() && line.swept.empty();
      plan.id = names.of_label(plain ? plan.scheme : plan.listing.label);
      if (known == asked.end())
        asked.push_back({std::move(plan), &line.config});
      else
        *known = {std::move(plan), &line.config};
    }
  return asked;
}

/// Whether the configuration is the one that the comparison's cases have in common.
bool is_common(const ExperimentConfig& config, const ExperimentConfig& common) {
  return config.model == common.model && config.data == common.data &&
         config.train == common.train && config.optimizer == common.optimizer &&
         config.device == common.device && config.sim == common.sim && config.mesh == common.mesh &&
         config.pipeline == common.pipeline;
}

/// Plans `single` with the threads of all ranks of the largest world together. Returns nothing if
/// `single` has as many threads anyway or is not asked for with the common settings, if
/// compare.all_cores is false, or if the device is not the CPU.
std::optional<RunPlan> plan_on_all_cores(const ExperimentConfig& common,
                                         const std::vector<AskedRun>& asked, int cores) {
  const auto single = std::find_if(asked.begin(), asked.end(), [&](const AskedRun& run) {
    return run.plan.scheme == reference_scheme && is_common(*run.config, common);
  });
  if (!common.compare.all_cores || !device_traits(common.device.kind).on_processor ||
      single == asked.end())
    return {};
  int largest_world = 1;
  for (const AskedRun& run : asked)
    if (same_training(run.plan, single->plan))
      largest_world = std::max(largest_world, run.plan.world);
  const auto threads = std::min<std::int64_t>(cores, largest_world * common.device.threads);
  if (threads <= common.device.threads) return {};
  // The same run, with measured shares if it has some: only the threads differ.
  RunPlan plan = single->plan;
  plan.device.threads = threads;
  plan.listing.set = plan.listing.swept = {};
  plan.listing.published.clear();
  plan.purpose = Purpose::all_cores;
  plan.id = fmt::format("{}-t{}", plan.scheme, threads);
  plan.listing.label = plan.listing.family =
      fmt::format("{} ({} threads)", plan.listing.label, threads);
  return plan;
}

/// Makes the runs of a comparison from one plan for each case and world.
class Repeater {
 public:
  explicit Repeater(const ExperimentConfig& common)
      : seeds_(common.compare.seeds),
        quick_(common.compare.quick),
        order_(static_cast<std::uint64_t>(common.train.seed)) {}

  /// Adds each of the references, with every seed. Their lines begin with number `line`.
  void add_references(const std::vector<RunPlan>& references, int line) {
    for (const RunPlan& plan : references) {
      for (RunPlan& run : with_seeds(plan, 0)) {
        run.listing.line = line;
        run.listing.place = static_cast<int>(runs_.size());
        runs_.push_back(std::move(run));
      }
      ++line;
    }
  }

  /// Adds one repeat of all cases, in a random order.
  void add_repeat(const std::vector<RunPlan>& lines, int repeat) {
    std::vector<RunPlan> of_repeat;
    for (std::size_t line = 0; line < lines.size(); ++line)
      for (RunPlan& run : with_seeds(lines[line], repeat)) {
        run.listing.line = static_cast<int>(line);
        of_repeat.push_back(std::move(run));
      }
    const auto first = static_cast<int>(runs_.size());
    for (std::size_t i = 0; i < of_repeat.size(); ++i)
      of_repeat[i].listing.place =
          first + static_cast<int>(
                      permuted(i, of_repeat.size(), order_, static_cast<std::uint64_t>(repeat)));
    runs_.insert(runs_.end(), of_repeat.begin(), of_repeat.end());
  }

  std::vector<RunPlan> runs() && { return std::move(runs_); }

 private:
  std::vector<RunPlan> with_seeds(const RunPlan& plan, int repeat) const {
    std::vector<RunPlan> out;
    for (std::size_t i = 0; i < std::max<std::size_t>(1, seeds_.size()); ++i) {
      RunPlan& run = out.emplace_back(plan);
      run.repeat = repeat;
      run.listing.quick = quick_;
      run.listing.seeded = !seeds_.empty();
      if (run.listing.seeded) {
        run.train.seed = seeds_[i];
        run.id += fmt::format("-s{}", run.train.seed);
      }
      run.id += fmt::format("-r{}", repeat);
    }
    return out;
  }

  std::vector<std::int64_t> seeds_;
  bool quick_;
  std::uint64_t order_;
  std::vector<RunPlan> runs_;
};

/// Throws Error if losses are asked for and no run has any.
void check_losses(const std::vector<AskedRun>& asked, const CompareConfig& compare) {
  if (compare.target_kind == TargetKind::none) return;
  if (std::none_of(asked.begin(), asked.end(),
                   [](const AskedRun& run) { return computes(run.plan); }))
    throw Error(
        "compare.target_loss needs losses, which a simulation has only with sim.numerics = true; "
        "set that, or leave compare.target_loss out");
}

/// Throws Error if compare.seeds is set and a case sets a seed of its own.
void check_seeds(const std::vector<PlannedCase>& lines, const CompareConfig& compare) {
  const auto is_seed = [](const Setting& one) { return one.key == "train.seed"; };
  for (const PlannedCase& line : lines)
    if (!compare.seeds.empty() && (std::any_of(line.set.begin(), line.set.end(), is_seed) ||
                                   std::any_of(line.swept.begin(), line.swept.end(), is_seed)))
      throw Error("{}compare.seeds gives every line its seeds; leave train.seed out of the line",
                  describe(line));
}

/// Throws Error if two runs have the same id, because files and records are found by the id of
/// their run.
void check_ids(const std::vector<RunPlan>& runs) {
  std::set<std::string> ids;
  for (const RunPlan& run : runs)
    if (!ids.insert(run.id).second)
      throw Error("two runs would be called {}; this is a mistake of the planner, please report it",
                  run.id);
}

}  // namespace

std::vector<RunPlan> plan_comparison(const Experiment& experiment, int cores,
                                     const std::vector<MeasuredSpeeds>& measured) {
  check_name(experiment.common.name);
  check_compare(experiment);
  Experiment first = experiment;  // with the first of several seeds
  const CompareConfig& compare = experiment.common.compare;
  if (!compare.seeds.empty()) first.common.train.seed = compare.seeds.front();
  const std::vector<PlannedCase> lines = cases_of(first);
  check_seeds(lines, compare);
  const std::vector<AskedRun> asked = asked_runs(lines, measured);
  check_losses(asked, compare);

  std::vector<RunPlan> plans;
  for (const AskedRun& run : asked) {
    plans.push_back(run.plan);
    plans.back().id += fmt::format("-w{}", run.plan.world);
    // Repeats of a run have one folder, one after the other.
    if (std::string& path = plans.back().checkpoint.path; !path.empty())
      path += "/" + plans.back().id;
  }
  if (auto plan = plan_on_all_cores(first.common, asked, cores)) plans.push_back(std::move(*plan));
  const std::vector<RunPlan> references = missing_references(asked);
  Repeater repeater(experiment.common);
  repeater.add_references(references, static_cast<int>(plans.size()));
  for (int repeat = 0; repeat < compare.repeats; ++repeat) repeater.add_repeat(plans, repeat);
  std::vector<RunPlan> runs = std::move(repeater).runs();
  check_ids(runs);
  return runs;
}

RunPlan plan_training(const ExperimentConfig& config, const std::string& scheme, int world,
                      const std::vector<MeasuredSpeeds>& measured) {
  check_config(config);
  const SchemeInfo& row = scheme_to_run(scheme);
  check_world("world", world);
  if (row.max_world > 0 && world > row.max_world)
    throw Error("scheme {} runs at world {} at most, not at {}", scheme, row.max_world, world);
  return plan_run(config, row, world, 0, measured);
}

}  // namespace ringside::runner
