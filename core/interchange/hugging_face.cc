// Configurations of Hugging Face: config.json.
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/untrusted_json.h"
#include "core/data/file_format.h"
#include "core/interchange/stated_model.h"
#include "core/models/models.h"

namespace ringside {
namespace {

using nlohmann::json;

json read_object(const std::filesystem::path& path, std::string_view setting) {
  constexpr std::size_t largest = 1 << 24, deepest = 64;
  const RegularFile file(path, setting);
  refuse_other_formats(file);
  if (file.size() > largest)
    throw Error("{}: {} has {} bytes; a config.json of Hugging Face is smaller", setting,
                path.string(), file.size());
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  json out = parse_json(path.string(), text, deepest);
  if (!out.is_object() || !out.value("model_type", json()).is_string())
    throw Error(
        "{}: {} is no config.json of Hugging Face: it has no model_type; keep weights apart from "
        "other programs' config.json",
        setting, path.string());
  return out;
}

}  // namespace

bool has_hugging_face_config(std::string_view kind) {
  return std::any_of(models().begin(), models().end(), [&](const ModelInfo& model) {
    return model.name == kind && !model.model_type.empty();
  });
}

std::vector<std::string_view> hugging_face_types() {
  std::vector<std::string_view> text, images;
  for (const ModelInfo& model : models()) {
    const bool sees = std::find(model.keys.begin(), model.keys.end(), "image") != model.keys.end();
    if (!model.model_type.empty()) (sees ? images : text).push_back(model.model_type);
  }
  text.insert(text.end(), images.begin(), images.end());
  return text;
}

StatedModel read_hugging_face_config(const std::filesystem::path& file, std::string_view setting) {
  StatedModel out{.file = file.string(), .model = {}, .keys = {}};
  const PublishedConfig config(out, read_object(file, setting));
  const json type = config.value("model_type", "");
  for (const ModelInfo& model : models()) {
    if (model.model_type.empty() || type != model.model_type) continue;
    out.model.kind = model.name;
    config.state("model_type", "kind", type);
    model.read(config);
    return out;
  }
  config.refuse("model_type", type,
                fmt::format("[model] has {}", fmt::join(hugging_face_types(), ", ")));
}

}  // namespace ringside
