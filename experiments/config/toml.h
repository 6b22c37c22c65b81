// TOML files as flat lists of values, each with the place where it stands.
#pragma once

#include <cstdint>
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
  std::string table;     // the place where its table begins
};

/// In the order of the file. Throws Error that names the file, and the line of what is no TOML.
std::vector<TomlValue> read_toml(const std::filesystem::path& file);

/// The value after the "=" of "--set key=value": TOML or, where it is none, a bare word. `place` is
/// for errors.
nlohmann::json toml_value(const std::string& text, const std::string& place);

/// As TOML writes it, on one line: a value, and a name in a key or in the head of a table.
std::string toml_text(const nlohmann::json& value);
std::string toml_key(const std::string& name);

/// Put `value` into `out`, or throw Error: "PLACE: KEY must be an integer, but 1.5 is a number with
/// a fraction". A number may be an integer too, and must be finite. A list may be one element.
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
  /// Throws: "PLACE: KEY must be WANTED, but ...".
  [[noreturn]] void refuse(std::string_view wanted) const;
};

}  // namespace ringside
