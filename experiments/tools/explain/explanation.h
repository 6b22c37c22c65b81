// The explanation of a comparison's cases, as `explain` gives it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tools/explain/cause.h"
#include "experiments/tools/explain/evidence.h"
#include "experiments/tools/explain/what_if.h"

namespace ringside::tools::explain {

struct Bounds {
  double sent_bytes = 0, least_bytes = 0;  // of the busiest rank, in a step
  /// The time of the least bytes over the rank's link; none if the link is not known, and where
  /// ranks read each other's memory.
  std::optional<double> link_ms{};
  double link_gbs = 0;
  /// The time of a step in which workers only compute and update, and the source of this figure:
  /// "single", "its own compute".
  double compute_ms = 0;
  std::string compute_of{};
};

/// The bounds of a case. The time of compute alone is that of the case `independent` at the same
/// world if it was measured too, else that of `single`, whose step is divided by the world. Without
/// them it is the compute of the fastest rank, or of an average one without a trace.
Bounds bounds_of(const Evidence& evidence, const std::vector<Evidence>& all);

/// A cause with the simulated effects of its remedies, the best of them first.
struct Explained {
  Finding finding{};
  std::vector<WhatIf> trials{};
};

struct Explanation {
  Evidence evidence{};
  Bounds bounds{};
  std::vector<Explained> causes{};  // the one that accounts for most first
};

/// The detail of an explanation.
enum class Detail : std::uint8_t { brief, full };

/// Explains `one` of `all` cases of a comparison. Blocks while remedies are simulated: those of
/// all causes, or with Detail::brief those of the first.
Explanation explanation_of(const Evidence& one, const std::vector<Evidence>& all,
                           const WhatIfSetup& ground, Detail detail);

/// Plain sentences, with lines' ends.
std::string explanation_text(const Explanation& explanation, const WhatIfSetup& ground,
                             Detail detail);
nlohmann::ordered_json explanation_json(const Explanation& explanation);

/// The cases of `all` with this label, and with this world unless it is 0. Throws Error that lists
/// labels and worlds if there is none.
std::vector<const Evidence*> cases_called(const std::vector<Evidence>& all,
                                          const std::string& label, int world);

Fields fields_of(StepParts& parts);
Fields fields_of(PathPart& part);
Fields fields_of(Remedy& remedy);
Fields fields_of(WhatIf& trial);
Fields fields_of(Finding& finding);
Fields fields_of(Bounds& bounds);

}  // namespace ringside::tools::explain
