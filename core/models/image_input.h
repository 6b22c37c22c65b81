// The input of an image model's first unit, checked and converted.
#pragma once

#include "core/base/error.h"
#include "core/models/model_config.h"
#include "core/nn/layer_tensors.h"

namespace ringside {

/// Returns the images in the dtype in which the unit computes. Throws Error if their shape is not
/// [B, image, image, channels].
inline Tensor image_input(const Unit& unit, const ModelConfig& config, const Tensor& images) {
  const Shape& in = images.shape();
  if (in.rank() != 4 || in[1] != config.image || in[2] != config.image || in[3] != config.channels)
    throw Error("unit {}: input {} is not [samples, {}, {}, {}]", unit.name(), in.text(),
                config.image, config.image, config.channels);
  return layer::as_computed(unit, images);
}

}  // namespace ringside
