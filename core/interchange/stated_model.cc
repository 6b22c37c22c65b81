#include "core/interchange/stated_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/untrusted_json.h"
#include "core/models/model_defaults.h"

namespace ringside {
namespace {

using nlohmann::json;

constexpr std::string_view metadata_name = "ringside.model";

const Field& field_of(const Fields& fields, std::string_view key) {
  const auto at =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == key; });
  if (at == fields.end()) throw Error("there is no key '{}' in [model]", key);
  return *at;
}

std::string differing(const StatedModel::Key& key, const std::string& file,
                      const std::string& here) {
  const std::string ours = key.theirs == key.ours ? "" : key.ours + " = ";
  return fmt::format("{} = {} in {}, {}{} here", key.theirs, key.value, file, ours, here);
}

}  // namespace

std::vector<Disagreement> disagreements(const StatedModel& stated, const ModelConfig& here) {
  std::vector<Disagreement> out;
  const ModelConfig there = completed(stated.model), own = completed(here);
  const Fields of_there = fields_to_read(there), of_own = fields_to_read(own);
  for (const StatedModel::Key& key : stated.keys) {
    if (!out.empty() && out.front().key == "kind") break;
    const json theirs = to_json(field_of(of_there, key.ours).value);
    const json ours = to_json(field_of(of_own, key.ours).value);
    if (theirs != ours) out.push_back({key.ours, differing(key, stated.file, text_of(ours))});
  }
  return out;
}

std::pair<std::string, std::string> stating_metadata(const ModelConfig& model) {
  const ModelConfig all = completed(model);
  const Fields fields = fields_to_read(all);
  nlohmann::ordered_json stated = {{"kind", all.kind}};
  for (const std::string_view key : deciding_keys(all.kind))
    stated[std::string(key)] = to_json(field_of(fields, key).value);
  return {std::string(metadata_name), stated.dump()};
}

std::optional<StatedModel> model_of_metadata(const StoredTensors& stored) {
  const auto text = stored.metadata.find(std::string(metadata_name));
  if (text == stored.metadata.end()) return {};
  const auto refuse = [&](std::string_view cause) {
    throw Error("{}: its metadata '{}' are not those of a saved model: {}", stored.path,
                metadata_name, cause);
  };
  const json table = parse_json(stored.path, text->second, 1);
  if (!table.is_object() || !table.contains("kind") || !table["kind"].is_string())
    refuse("there is no kind");
  StatedModel out{.file = stored.path, .model = {}, .keys = {}};
  const auto take = [&](std::string_view key) {
    const auto value = table.find(std::string(key));
    if (value == table.end()) return;  // the file is older than the key
    out.keys.push_back({std::string(key), std::string(key), text_of(*value)});
    try {
      read_json(table, {field_of(fields_of(out.model), key)});
    } catch (const std::exception& error) {
      refuse(error.what());
    }
  };
  take("kind");
  for (const std::string_view key : deciding_keys(out.model.kind)) take(key);
  return out;
}

}  // namespace ringside
