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

/// Reads what to_json() wrote. A missing field or a value of the wrong type throws
/// nlohmann::json::exception; a string that names no value of its enum throws Error. Members of the
/// object that are no field are ignored.
void read_json(const nlohmann::json& in, const Fields& out);

template <HasFields Struct>
Struct read_json(const nlohmann::json& in) {
  Struct value;
  read_json(in, fields_of(value));
  return value;
}

}  // namespace ringside
