#include "core/models/published_config.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/untrusted_json.h"
#include "core/models/model_defaults.h"

namespace ringside {
namespace {

/// Sizes are checked again where models are made; these can be multiplied.
constexpr std::int64_t largest_published_size = 1 << 30;

struct NamedActivation {
  std::string_view theirs;
  ModelActivation ours;
};
constexpr NamedActivation named_activations[] = {
    {"relu", ModelActivation::relu},           {"gelu", ModelActivation::gelu},
    {"gelu_new", ModelActivation::gelu_tanh},  {"gelu_pytorch_tanh", ModelActivation::gelu_tanh},
    {"gelu_fast", ModelActivation::gelu_tanh}, {"tanh", ModelActivation::tanh},
    {"silu", ModelActivation::silu},           {"swish", ModelActivation::silu},
};

}  // namespace

std::optional<ModelActivation> activation_named(const nlohmann::json& name) {
  for (const auto& [theirs, ours] : named_activations)
    if (name == theirs) return ours;
  return {};
}

PublishedConfig::PublishedConfig(StatedModel& out, Json object, std::string name)
    : out_(out), object_(std::move(object)), name_(std::move(name)) {}

PublishedConfig::Json PublishedConfig::value(const std::string& key, const Json& otherwise) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? otherwise : *at;
}

PublishedConfig PublishedConfig::object(const std::string& key) const {
  const Json inner = value(key, Json::object());
  if (!inner.is_object()) refuse(key, inner, "an object belongs there");
  return {out_, inner, name_ + key + "."};
}

void PublishedConfig::take_size(const std::string& key, std::string_view ours, std::int64_t& field,
                                std::int64_t otherwise) const {
  const Json found = value(key, otherwise);
  if (!found.is_number_integer() || found < 1 || found > largest_published_size)
    refuse(key, found,
           fmt::format("a whole number from 1 to {} belongs there", largest_published_size));
  field = found.get<std::int64_t>();
  state(key, ours, found);
}

void PublishedConfig::take_number(const std::string& key, std::string_view ours, double& field,
                                  double otherwise) const {
  const Json found = value(key, otherwise);
  if (!found.is_number() || !(found > 0) || !std::isfinite(found.get<double>()))
    refuse(key, found, "a number above 0 belongs there");
  field = found.get<double>();
  state(key, ours, found);
}

void PublishedConfig::take_flag(const std::string& key, std::string_view ours, bool& field,
                                bool otherwise) const {
  const Json found = value(key, otherwise);
  if (!found.is_boolean()) refuse(key, found, "true or false belongs there");
  field = found.get<bool>();
  state(key, ours, found);
}

void PublishedConfig::take_activation(const std::string& key, std::string_view otherwise) const {
  const Json found = value(key, otherwise);
  const auto activation = activation_named(found);
  if (!activation || !has_activation(out_.model.kind, *activation))
    refuse(key, found, fmt::format("the MLP of model.kind '{}' does not have it", out_.model.kind));
  out_.model.activation = *activation;
  state(key, "activation", found);
}

void PublishedConfig::want(const std::string& key, const Json& wanted,
                           const Json& otherwise) const {
  const Json found = value(key, otherwise);
  if (found != wanted)
    refuse(key, found,
           fmt::format("model.kind '{}' computes with {} alone", out_.model.kind, text_of(wanted)));
}

void PublishedConfig::state(const std::string& key, std::string_view ours,
                            const Json& found) const {
  const bool given = has(key);
  out_.keys.push_back({std::string(ours), name_ + key,
                       text_of(found) + (given ? "" : " (the default of its model_type)")});
}

void PublishedConfig::refuse(const std::string& key, const Json& found,
                             std::string_view why) const {
  throw Error("{}: {}{} = {}: {}", out_.file, name_, key, text_of(found), why);
}

}  // namespace ringside
