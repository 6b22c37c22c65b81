// Names for the fields of a plain struct, given once and used everywhere: reading TOML, `--set`,
// plan.json, and the list of keys that an unknown key is held against.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ringside {

/// A struct with named fields has, found by argument-dependent look-up,
///
///     template <class Visitor>
///     void visit_fields(ModelConfig& c, Visitor&& v) {
///       v("layers", c.layers, "number of transformer blocks or hidden layers");
///     }
///
/// Field types: bool, std::int64_t, double, std::string, std::vector<std::string>,
/// std::vector<std::int64_t>. A default is the value of a default-constructed struct.
template <class Struct>
nlohmann::json to_json_fields(const Struct& value) {
  nlohmann::json out = nlohmann::json::object();
  visit_fields(const_cast<Struct&>(value),  // a visitor that only reads
               [&](std::string_view name, auto& field, std::string_view) {
                 out[std::string(name)] = field;
               });
  return out;
}

/// Fields absent from `in` keep their defaults; a field of the wrong type throws
/// nlohmann::json::type_error. Unknown names are the reader's business (experiments/config.h).
template <class Struct>
Struct from_json_fields(const nlohmann::json& in) {
  Struct value;
  visit_fields(value, [&](std::string_view name, auto& field, std::string_view) {
    if (auto it = in.find(std::string(name)); it != in.end()) it->get_to(field);
  });
  return value;
}

}  // namespace ringside
