// Presets: published models by name.
#pragma once

#include <string_view>
#include <vector>

#include "core/models/model_info.h"

namespace ringside {

/// Those of all kinds of models.
const std::vector<Preset>& presets();

/// The preset that equals `config` but for the length of samples, the number of hidden tokens,
/// dropout and the batch norm's group; null if there is none.
const Preset* preset_of(const ModelConfig& config);

/// Throws Error that suggests the nearest name and lists all presets.
const Preset& find_preset(std::string_view name);

}  // namespace ringside
