// The setup of a case: everything that a person needs to repeat it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The figures that the plan of a case lacks.
struct CaseSetup {
  std::int64_t parameters = 0;  // 0 if no repeat has finished, as are the tokens
  double tokens = 0;            // mean tokens of a sample; 0 for images
  std::vector<std::string> hosts{};
  std::vector<std::int64_t> seeds{};
};

/// `repeats` are all repeats of a case, with the smallest seed first; the parameters and the tokens
/// are those of the first one that has finished.
CaseSetup setup_of(const std::vector<const RunRecord*>& repeats);

/// With the plan of the first repeat.
nlohmann::ordered_json setup_json(const RunPlan& plan, const CaseSetup& setup);

}  // namespace ringside::runner
