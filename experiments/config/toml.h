// TOML files as flat lists of values, each with its place in the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ringside {

/// One value of a file: [scheme.ps] servers = 2 has the path {"scheme", "ps", "servers"}. An empty
/// table has an empty object as its value. Dates are refused.
struct TomlValue {
  std::vector<std::string> path;
  nlohmann::json value;  // integers stay integers, numbers with a fraction are floats
  std::string place;     // "file.toml:12"
  std::string table;     // where the value's table begins
};

/// The values in the order of the file. Throws Error that names the file, and the line that is not
/// valid TOML.
std::vector<TomlValue> read_toml(const std::filesystem::path& file);

/// The value after the "=" of "--set key=value". Text that is not a TOML value is taken as a bare
/// word. Errors begin with `place`.
nlohmann::json toml_value(const std::string& text, const std::string& place);

/// A value, and a name in a key or in the head of a table, as TOML writes them on one line.
std::string toml_text(const nlohmann::json& value);
std::string toml_key(const std::string& name);

/// Puts `value` into `out`, or throws Error: "PLACE: KEY must be an integer, but 1.5 is a number
/// with a fraction". A double takes integers too, and must be finite. A list may be given as one
/// element.
struct TomlTarget {
  const nlohmann::json& value;
  const std::string& place;
  const std::string& key;

  void to(bool& out) const;
  void to(std::int64_t& out) const;
  void to(double& out) const;
  void to(std::string& out) const;
  void to(std::vector<std::string>& out) const;
  void to(std::vector<std::int64_t>& out) const;
  /// Throws Error: "PLACE: KEY must be WANTED, but ...".
  [[noreturn]] void refuse(std::string_view wanted) const;
};

}  // namespace ringside
