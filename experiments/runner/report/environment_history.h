// The environments of a comparison's runs, if it was stopped and resumed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The content of environment.json for a comparison that goes on in environment `now` with the
/// records `rows`. It is `now` with a list "earlier": an element {"rows": [{"run", "attempt"}],
/// "environment"} for each other environment, with the records that were made in it. `before` is
/// the previous content of environment.json, null if it is not known. Environments that differ in
/// their time alone are the same.
nlohmann::ordered_json with_earlier(nlohmann::ordered_json now, const nlohmann::json& before,
                                    const std::vector<RunRecord>& rows);

/// For each earlier environment one line about its records and its differences from now.
std::vector<std::string> texts_of_earlier(const nlohmann::json& environment);

}  // namespace ringside::runner
