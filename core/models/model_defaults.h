// The values behind 0 and "auto" in [model], and the keys that decide what a model computes.
#pragma once

#include <span>
#include <string_view>

#include "core/device/ops/layers.h"
#include "core/models/model_config.h"

namespace ringside {

/// The config with the values that 0 and "auto" stand for in a model of its kind. A config whose
/// width or heads check_sizes() refuses is returned as it is.
ModelConfig completed(ModelConfig config);

/// Epsilon of the model's norms. Throws Error unless model.epsilon is 0, or lies between the
/// smallest normal number of fp32 and 1.
float epsilon_of(const ModelConfig& config);

/// Whether the MLP of this kind of model has the activation. SwiGLU has silu, all others what a
/// linear layer can compute with its product.
bool has_activation(std::string_view kind, ModelActivation activation);
/// Throws Error, which lists the kind's activations, if it does not have model.activation.
void check_activation(const ModelConfig& config);
/// The activation of a linear layer for model.activation. Throws Error as check_activation() does.
Activation activation_of(const ModelConfig& config);

/// The keys of [model] that decide what a model of this kind computes with given parameters. The
/// length of samples, dropout and other keys that concern training alone are not among them. Empty
/// for an unknown kind.
std::span<const std::string_view> deciding_keys(std::string_view kind);

}  // namespace ringside
