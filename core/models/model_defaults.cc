#include "core/models/model_defaults.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/error.h"
#include "core/models/models.h"

namespace ringside {
namespace {

// In fp32 the epsilons equal the constants of the published models.
static_assert(static_cast<float>(1e-5) == 1e-5f && static_cast<float>(1e-6) == 1e-6f &&
              static_cast<float>(1e-12) == 1e-12f);

constexpr std::int64_t largest_width = 1 << 20;

const ModelInfo* kind_of(std::string_view name) {
  const auto kind = std::find_if(models().begin(), models().end(),
                                 [&](const ModelInfo& model) { return model.name == name; });
  return kind == models().end() ? nullptr : &*kind;
}

template <class Value>
void replace(Value& value, Value nothing, Value by) {
  if (value == nothing) value = by;
}

}  // namespace

ModelConfig completed(ModelConfig config) {
  const ModelInfo* kind = kind_of(config.kind);
  if (!kind || config.width < 1 || config.width > largest_width || config.heads < 1) return config;
  replace(config.epsilon, 0.0, kind->epsilon);
  replace(config.activation, ModelActivation::published, kind->activation);
  if (kind->complete) kind->complete(config);
  return config;
}

float epsilon_of(const ModelConfig& config) {
  const double epsilon = completed(config).epsilon;
  if (!(epsilon >= std::numeric_limits<float>::min() && epsilon <= 1))
    throw Error("model.epsilon = {} is out of range; it has to be 1e-37 to 1, or 0", epsilon);
  return static_cast<float>(epsilon);
}

bool has_activation(std::string_view kind, ModelActivation activation) {
  const ModelInfo* known = kind_of(kind);
  if (!known || activation == ModelActivation::published) return true;
  const bool gated = known->activation == ModelActivation::silu;
  return gated == (activation == ModelActivation::silu);
}

void check_activation(const ModelConfig& config) {
  if (has_activation(config.kind, config.activation)) return;
  std::vector<std::string_view> known;
  for (const std::string_view name : activation_names)
    if (has_activation(config.kind, *value_named<ModelActivation>(name))) known.push_back(name);
  throw Error("model.activation = '{}': the MLP of '{}' does not have it; choose {}",
              name_of(config.activation), config.kind, one_of(known));
}

Activation activation_of(const ModelConfig& config) {
  check_activation(config);
  switch (completed(config).activation) {
    case ModelActivation::relu:
      return Activation::relu;
    case ModelActivation::gelu:
      return Activation::gelu_erf;
    case ModelActivation::gelu_tanh:
      return Activation::gelu;
    case ModelActivation::tanh:
      return Activation::tanh;
    case ModelActivation::published:
    case ModelActivation::silu:
      break;
  }
  throw Error("model.kind = '{}': its MLP has no linear layer with an activation", config.kind);
}

std::span<const std::string_view> deciding_keys(std::string_view kind) {
  const ModelInfo* known = kind_of(kind);
  if (!known) return {};
  return known->keys;
}

}  // namespace ringside
