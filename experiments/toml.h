// TOML files as flat lists of values, each with the place where it stands.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringside {

/// One value of a file: [scheme.ps] servers = 2 has the path {"scheme", "ps", "servers"}. An empty
/// table is an empty object. Dates are refused.
struct TomlValue {
  std::vector<std::string> path;
  nlohmann::json value;  // integers stay integers, numbers with a fraction are floats
  std::string place;     // "file.toml:12"
};

/// In the order of the file. Throws Error that names the file and line for what is no TOML.
std::vector<TomlValue> read_toml(const std::filesystem::path& file);

/// The value after the "=" of "--set key=value": TOML or, where it is none, a bare word. `place` is
/// for errors.
nlohmann::json toml_value(const std::string& text, const std::string& place);

/// As TOML writes it, on one line, cut where it is long; and what it is, as in "a string".
std::string toml_text(const nlohmann::json& value);
std::string toml_type(const nlohmann::json& value);

}  // namespace ringside
