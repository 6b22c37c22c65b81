// Simulations of the remedies for a cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/runner/run/parallel_simulations.h"
#include "experiments/runner/run/predict.h"
#include "experiments/tools/explain/cause.h"

namespace ringside::tools::explain {

/// The effect of a remedy that the simulator predicts. Both runs are simulated, so that errors of
/// the simulator for this case are in both.
struct WhatIf {
  Remedy remedy{};
  std::string why_not{};                   // a clause, if there are no figures
  double before_ms = 0, after_ms = 0;      // of a step, in the median
  double before_rate = 0, after_rate = 0;  // samples/s
  bool other_batch = false;                // a step has other samples, so that only rates compare
  /// The rate with the remedy divided by that without; 0 without figures.
  double gain() const { return before_rate > 0 ? after_rate / before_rate : 0; }
};

/// The setup in which remedies are simulated.
struct WhatIfSetup {
  /// This machine as `ringside calibrate` measured it, for cases that were measured on its CPU;
  /// cases that were simulated are simulated on their own cluster.
  std::optional<runner::CalibratedMachine> machine{};
  std::string no_machine{};     // why there is none: a clause
  runner::Simulate simulate{};  // if empty, nothing is simulated
  double seconds = 60;          // for the simulations of one case
};

/// The plan with which the run of `plan` is simulated with other settings, with few steps. Throws
/// Error for impossible settings, and for runs that cannot be simulated.
RunPlan what_if_plan(const RunPlan& plan, const Remedy& remedy, const WhatIfSetup& ground);

/// Simulates the case and each remedy that can be simulated. Blocks. Returns trials in the order of
/// the remedies; throws nothing for those that fail.
std::vector<WhatIf> what_ifs_of(const RunPlan& plan, const std::vector<Remedy>& remedies,
                                const WhatIfSetup& ground);

}  // namespace ringside::tools::explain
