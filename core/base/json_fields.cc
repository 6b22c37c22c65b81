#include "core/base/json_fields.h"

#include <nlohmann/json.hpp>

namespace ringside {

nlohmann::json to_json(const FieldValue& value) {
  return std::visit([](const auto* kept) { return nlohmann::json(*kept); }, value);
}

nlohmann::json to_json(const Fields& fields) {
  nlohmann::json out = nlohmann::json::object();
  for (const Field& field : fields) out[std::string(field.name)] = to_json(field.value);
  return out;
}

void read_json(const nlohmann::json& in, const Fields& out) {
  for (const Field& field : out)
    if (const auto found = in.find(std::string(field.name)); found != in.end())
      std::visit([&](auto* kept) { found->get_to(*kept); }, field.value);
}

}  // namespace ringside
