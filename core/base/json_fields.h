// Fields as JSON: the one place that writes and reads them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/base/fields.h"

namespace ringside {

nlohmann::json to_json(const FieldValue& value);

/// An object of all fields by their names.
nlohmann::json to_json(const Fields& fields);

/// Fields that `in` does not have keep their values; a value of the wrong type throws
/// nlohmann::json::type_error. Unknown names are the reader's business
/// (experiments/config/config.h).
void read_json(const nlohmann::json& in, const Fields& out);

/// As above, over the defaults.
template <HasFields Struct>
Struct read_json(const nlohmann::json& in) {
  Struct value;
  read_json(in, fields_of(value));
  return value;
}

}  // namespace ringside
