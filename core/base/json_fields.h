// Fields as JSON: the only functions that write and read them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/base/fields.h"

namespace ringside {

nlohmann::json to_json(const FieldValue& value);

/// Returns an object with all fields under their names.
nlohmann::json to_json(const Fields& fields);

/// Reads the fields that `in` has; the other fields keep their values. A value of the wrong type
/// throws nlohmann::json::type_error. The caller deals with unknown names
/// (experiments/config/config.h).
void read_json(const nlohmann::json& in, const Fields& out);

/// Reads a struct as above; the other fields have their defaults.
template <HasFields Struct>
Struct read_json(const nlohmann::json& in) {
  Struct value;
  read_json(in, fields_of(value));
  return value;
}

}  // namespace ringside
