// Variables of the environment that are recorded with results.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ringside::runner {

/// The variables among `environment` ("NAME=value") that change the speed or the result of a run,
/// as UTF-8 text. Results are shown to other people and sent to other hosts, so a variable is kept
/// only if its name is in the list of kept_variables.cc; none of these names is that of a key, a
/// token, a password, a credential or a cookie.
std::map<std::string, std::string> kept_variables(const std::vector<std::string>& environment);

}  // namespace ringside::runner
