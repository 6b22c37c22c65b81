// The explanation of a comparison's cases, as `explain` gives it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/tools/explain/cause.h"
#include "experiments/tools/explain/lower_bounds.h"
#include "experiments/tools/explain/what_if.h"

namespace ringside {

/// A cause with what the simulator expects of its remedies, the best of them first.
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

}  // namespace ringside
