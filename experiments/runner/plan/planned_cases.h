// The cases of a comparison, before their worlds, seeds and repeats.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/runner/config/config.h"
#include "experiments/runner/registry/registry.h"

namespace ringside::runner {

/// The most cases of a comparison, counted with their worlds.
inline constexpr std::int64_t most_cases = 256;

/// A scheme of compare.schemes or a table [[compare.case]], at one point of the sweep: one line of
/// a table.
struct PlannedCase {
  const SchemeInfo* scheme = nullptr;
  std::string label;                // of the case; empty: made of the scheme and what it sets
  std::vector<Setting> set, swept;  // of the case; of the sweep
  std::vector<int> worlds;
  std::map<int, std::vector<Published>> published{};  // by world
  ExperimentConfig config;
  std::string place;  // where the case stands; empty for a scheme of compare.schemes
};

/// All cases: the schemes of compare.schemes, then the tables [[compare.case]], each at every point
/// of the sweep. A scheme that allows only worlds up to a limit gets those of compare.worlds, or
/// its limit if all of them are larger. Throws Error for an unknown scheme, for a value that cannot
/// be bound, for a world that a case asks for and its scheme does not allow, for published figures
/// that are not those of its worlds, and for more than most_cases cases.
std::vector<PlannedCase> cases_of(const Experiment& experiment);

/// Gives a run of the case its label, family, settings and published figures.
void name_run(RunPlan& plan, const PlannedCase& line);

/// The begin of errors about the case: "trial.toml:12: case 'ps (servers=1)': "; empty for a scheme
/// without settings.
std::string describe(const PlannedCase& line);

}  // namespace ringside::runner
