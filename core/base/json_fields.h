// Fields as JSON: the only functions that write and read them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/base/fields.h"

namespace ringside {

/// An empty optional is null, a list of structs an array, and a struct or a map an object.
nlohmann::ordered_json to_json(const FieldValue& value);
/// Returns an object with all fields under their names, in their order.
nlohmann::ordered_json to_json(const Fields& fields);
template <HasFields Struct, class Json = nlohmann::ordered_json>  // incomplete here
Json to_json(const Struct& value) {
  return to_json(fields_to_read(value));
}

/// Reads what to_json() wrote. A missing field or a value of the wrong type throws
/// nlohmann::json::exception; an enum's value without a name throws Error. Unknown names are left
/// alone.
void read_json(const nlohmann::json& in, const Fields& out);

template <HasFields Struct>
Struct read_json(const nlohmann::json& in) {
  Struct value;
  read_json(in, fields_of(value));
  return value;
}

}  // namespace ringside
