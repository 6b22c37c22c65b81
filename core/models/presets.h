// Models that have a name of their own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/models/model.h"

namespace ringside {

/// All [model] keys of a published model, for `model.preset`.
struct Preset {
  std::string_view name;
  std::string_view source;
  ModelConfig config;
  /// What the model has, exactly; a test counts them.
  std::int64_t parameters = 0;
  /// Without the heads of its pre-training, where the literature counts so; else 0.
  std::int64_t encoder = 0;
};

const std::vector<Preset>& presets();

/// Throws Error that names the nearest one and all there are.
const Preset& find_preset(std::string_view name);

}  // namespace ringside
