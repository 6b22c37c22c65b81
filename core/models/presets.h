// Presets: published models by name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/models/model.h"

namespace ringside {

/// All [model] keys of a published model. `model.preset` selects it.
struct Preset {
  std::string_view name;
  std::string_view source;
  ModelConfig config;
  /// The exact number of parameters; a test counts them.
  std::int64_t parameters = 0;
  /// The number of parameters without the heads of the pre-training, if publications give this
  /// number; else 0.
  std::int64_t encoder = 0;
};

const std::vector<Preset>& presets();

/// The preset whose parameters these are, and that computes the same with them but for the length
/// of samples, hidden tokens, dropout and the batch norm's group; null if there is none.
const Preset* preset_of(const ModelConfig& config);

/// Throws Error that suggests the nearest name and lists all presets.
const Preset& find_preset(std::string_view name);

}  // namespace ringside
