// The environments of a comparison's runs, if it was stopped and resumed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The content of environment.json for a comparison that goes on in environment `now` with `rows`:
/// `now`, and in "earlier", a list of {"rows": [{"run", "attempt"}], "environment"}, the
/// environment of those of the records that were made in another one. `before` is the content of
/// environment.json until now, null if it is not known. Environments that differ in their time
/// alone are the same.
nlohmann::ordered_json with_earlier(nlohmann::ordered_json now, const nlohmann::json& before,
                                    const std::vector<RunRecord>& rows);

/// For each earlier environment one line about its records and its differences from now.
std::vector<std::string> texts_of_earlier(const nlohmann::json& environment);

}  // namespace ringside::runner
