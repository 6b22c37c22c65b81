// Parsing of JSON from files of unknown origin.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ringside {

/// Parses `text`, all of a file or a part of it. Throws Error that names `path` if the text is no
/// JSON, if an object names a member twice, which the parsed value would not show, or if objects
/// and arrays are nested deeper than `deepest`.
nlohmann::json parse_json(const std::string& path, std::string_view text, std::size_t deepest);

/// A value on one line for a message; long values are cut.
std::string text_of(const nlohmann::json& value);

}  // namespace ringside
