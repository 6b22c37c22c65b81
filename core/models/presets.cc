#include "core/models/presets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/models/model_defaults.h"
#include "core/models/models.h"

namespace ringside {
namespace {

/// Kinds whose presets come first in lists; the others follow in the order of models().
constexpr std::string_view first_kinds[] = {"resnet", "vgg", "alexnet", "inception", "bert"};

std::vector<Preset> presets_of_all_kinds() {
  std::vector<Preset> out;
  const auto add = [&](const ModelInfo& model) {
    for (Preset& preset : model.presets()) out.push_back(std::move(preset));
  };
  for (const std::string_view kind : first_kinds) add(find_model(kind));
  for (const ModelInfo& model : models())
    if (std::find(std::begin(first_kinds), std::end(first_kinds), model.name) ==
        std::end(first_kinds))
      add(model);
  return out;
}

/// Copies the values of some keys of [model].
void copy_keys(ModelConfig& from, std::span<const std::string_view> keys, ModelConfig& to) {
  const Fields source = fields_of(from), target = fields_of(to);
  for (std::size_t i = 0; i < source.size(); ++i)
    if (std::find(keys.begin(), keys.end(), source[i].name) != keys.end())
      *std::get<std::int64_t*>(target[i].value) = *std::get<std::int64_t*>(source[i].value);
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = presets_of_all_kinds();
  return all;
}

const Preset* preset_of(const ModelConfig& config) {
  for (const Preset& preset : presets()) {
    if (preset.config.kind != config.kind) continue;
    ModelConfig given = config, published = preset.config;
    published.dropout = config.dropout;
    published.batch_norm_group = config.batch_norm_group;
    published.masked = config.masked;
    copy_keys(given, find_model(config.kind).sample_keys, published);
    if (completed(published) == completed(config)) return &preset;
  }
  return nullptr;
}

const Preset& find_preset(std::string_view name) {
  std::vector<std::string> known;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    known.emplace_back(preset.name);
  }
  throw Error("unknown model.preset '{}'; did you mean '{}'? There are: {}", name,
              nearest(name, known), fmt::join(known, ", "));
}

}  // namespace ringside
