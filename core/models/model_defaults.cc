#include "core/models/model_defaults.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/error.h"

namespace ringside {
namespace {

using Keys = std::span<const std::string_view>;

constexpr std::string_view gpt_keys[] = {"layers",     "heads", "width",   "positions",
                                         "vocabulary", "tied",  "epsilon", "activation"};
constexpr std::string_view llama_keys[] = {"layers", "heads",     "width",       "kv_heads",
                                           "hidden", "rope_base", "rope_factor", "vocabulary",
                                           "tied",   "epsilon",   "activation"};
constexpr std::string_view bert_keys[] = {"layers",   "heads",      "width",   "positions",
                                          "segments", "vocabulary", "epsilon", "activation"};
constexpr std::string_view idefics3_keys[] = {
    "layers",        "heads",        "width",        "kv_heads",     "hidden",
    "rope_base",     "rope_factor",  "vocabulary",   "tied",         "epsilon",
    "activation",    "image",        "channels",     "patch",        "shuffle",
    "vision_layers", "vision_heads", "vision_width", "vision_hidden"};
constexpr std::string_view t5_keys[] = {"layers",
                                        "heads",
                                        "width",
                                        "head_width",
                                        "hidden",
                                        "relative_buckets",
                                        "relative_distance",
                                        "vocabulary",
                                        "epsilon",
                                        "activation"};
constexpr std::string_view mlp_keys[] = {"layers", "width", "context", "vocabulary"};
constexpr std::string_view resnet_keys[] = {"layers", "channels",    "classes", "filters",
                                            "groups", "group_width", "stem"};
constexpr std::string_view vgg_keys[] = {"layers", "channels", "classes", "filters", "stem"};
constexpr std::string_view alexnet_keys[] = {"channels", "classes", "filters"};
constexpr std::string_view inception_keys[] = {"layers", "channels", "classes", "filters"};

/// A kind of model as it was published.
struct Kind {
  std::string_view name;
  Keys keys;
  double epsilon = 0;  // of norms over rows; 0, and `published`: no key decides
  ModelActivation activation = ModelActivation::published;
};
constexpr Kind kinds[] = {
    {"gpt", gpt_keys, 1e-5, ModelActivation::gelu_tanh},
    {"llama", llama_keys, 1e-5, ModelActivation::silu},
    {"bert", bert_keys, 1e-12, ModelActivation::gelu},
    {"idefics3", idefics3_keys, 1e-5, ModelActivation::silu},
    {"t5", t5_keys, 1e-6, ModelActivation::relu},
    {"mlp", mlp_keys},
    {"resnet", resnet_keys},
    {"vgg", vgg_keys},
    {"alexnet", alexnet_keys},
    {"inception", inception_keys},
};
// The numbers that stood in the models before they were keys.
static_assert(static_cast<float>(1e-5) == 1e-5f && static_cast<float>(1e-6) == 1e-6f &&
              static_cast<float>(1e-12) == 1e-12f);

constexpr std::int64_t largest_width = 1 << 20;

const Kind* kind_of(std::string_view name) {
  const auto* const kind = std::find_if(std::begin(kinds), std::end(kinds),
                                        [&](const Kind& k) { return k.name == name; });
  return kind == std::end(kinds) ? nullptr : kind;
}

template <class Value>
void replace(Value& value, Value nothing, Value by) {
  if (value == nothing) value = by;
}

void complete_sizes(ModelConfig& c) {
  const auto size = [](std::int64_t& value, std::int64_t by) {
    replace<std::int64_t>(value, 0, by);
  };
  if (c.kind == "gpt" || c.kind == "bert") size(c.positions, c.context);
  if (c.kind == "llama" || c.kind == "idefics3") {
    size(c.kv_heads, c.heads);
    size(c.hidden, (c.width * 8 / 3 + 255) / 256 * 256);
  }
  if (c.kind == "t5") {
    size(c.target_context, c.context);
    size(c.head_width, c.width / c.heads);
    size(c.hidden, 4 * c.width);
  }
}

}  // namespace

ModelConfig completed(ModelConfig config) {
  const Kind* kind = kind_of(config.kind);
  if (!kind || config.width < 1 || config.width > largest_width || config.heads < 1) return config;
  replace(config.epsilon, 0.0, kind->epsilon);
  replace(config.activation, ModelActivation::published, kind->activation);
  complete_sizes(config);
  return config;
}

float epsilon_of(const ModelConfig& config) {
  const double epsilon = completed(config).epsilon;
  if (!(epsilon >= std::numeric_limits<float>::min() && epsilon <= 1))
    throw Error("model.epsilon = {} is out of range; it has to be 1e-37 to 1, or 0", epsilon);
  return static_cast<float>(epsilon);
}

bool has_activation(std::string_view kind, ModelActivation activation) {
  const Kind* known = kind_of(kind);
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

Keys deciding_keys(std::string_view kind) {
  const Kind* known = kind_of(kind);
  return known ? known->keys : Keys{};
}

}  // namespace ringside
