// Fields as JSON: only these functions convert fields to JSON and back.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/base/fields.h"

namespace ringside {

/// An empty optional is null, a list of structs an array, and a struct or a map an object.
nlohmann::ordered_json to_json(const FieldValue& value);
/// Returns an object with all fields under their names, in their order.
nlohmann::ordered_json to_json(const Fields& fields);
/// Json is a template parameter because ordered_json is an incomplete type in this header.
template <HasFields Struct, class Json = nlohmann::ordered_json>
Json to_json(const Struct& value) {
  return to_json(fields_to_read(value));
}

/// The meaning of a field that an object lacks, at any depth. Messages between processes of one
/// build have all fields. Files may be older than a field, and then keep the field's default.
enum class Absent : std::uint8_t { refused, keeps_default };

/// Reads what to_json() wrote. A missing field, unless it keeps its default, or a value of the
/// wrong type throws nlohmann::json::exception; a string that names no value of its enum throws
/// Error. Members of the object that are no field are ignored.
void read_json(const nlohmann::json& in, const Fields& out, Absent absent = Absent::refused);

template <HasFields Struct>
Struct read_json(const nlohmann::json& in, Absent absent = Absent::refused) {
  Struct value;
  read_json(in, fields_of(value), absent);
  return value;
}

}  // namespace ringside
