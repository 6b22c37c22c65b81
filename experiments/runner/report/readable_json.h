// JSON in a layout for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ringside::runner {

/// The text of `value`, indented by two, with a line feed at its end. Lists of plain values take
/// one line, so that a curve of 200 points does not take 200 lines. Bytes of strings that are not
/// UTF-8 are replaced.
std::string readable_json(const nlohmann::ordered_json& value);

}  // namespace ringside::runner
