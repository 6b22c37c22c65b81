// Configurations of Hugging Face: config.json.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/data/file_format.h"
#include "core/interchange/stated_model.h"
#include "core/interchange/untrusted_json.h"
#include "core/models/model_defaults.h"

namespace ringside {
namespace {

using nlohmann::json;

/// Sizes are checked again where models are made; these can be multiplied.
constexpr std::int64_t largest_size = 1 << 30;

/// An object of a config.json whose keys become keys of [model]. Where the object lacks a key or
/// has null, `otherwise` is the value of Hugging Face's class.
class Object {
 public:
  Object(StatedModel& out, json object, std::string name = "")
      : out_(out), object_(std::move(object)), name_(std::move(name)) {}

  json value(const std::string& key, const json& otherwise) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? otherwise : *at;
  }
  /// The object under a key; empty if there is none.
  Object object(const std::string& key) const {
    const json inner = value(key, json::object());
    if (!inner.is_object()) refuse(key, inner, "an object belongs there");
    return {out_, inner, name_ + key + "."};
  }
  bool empty() const { return object_.empty(); }
  bool has(const std::string& key) const { return object_.contains(key); }

  /// Each sets a field of [model], whose key is `ours`.
  void take_size(const std::string& key, std::string_view ours, std::int64_t& field,
                 std::int64_t otherwise) const {
    const json found = value(key, otherwise);
    if (!found.is_number_integer() || found < 1 || found > largest_size)
      refuse(key, found, fmt::format("a whole number from 1 to {} belongs there", largest_size));
    field = found.get<std::int64_t>();
    state(key, ours, found);
  }
  void take_number(const std::string& key, std::string_view ours, double& field,
                   double otherwise) const {
    const json found = value(key, otherwise);
    if (!found.is_number() || !(found > 0) || !std::isfinite(found.get<double>()))
      refuse(key, found, "a number above 0 belongs there");
    field = found.get<double>();
    state(key, ours, found);
  }
  void take_flag(const std::string& key, std::string_view ours, bool& field, bool otherwise) const {
    const json found = value(key, otherwise);
    if (!found.is_boolean()) refuse(key, found, "true or false belongs there");
    field = found.get<bool>();
    state(key, ours, found);
  }
  void take_activation(const std::string& key, std::string_view otherwise) const;

  /// Refuses every value but one.
  void want(const std::string& key, const json& wanted, const json& otherwise) const {
    const json found = value(key, otherwise);
    if (found != wanted)
      refuse(
          key, found,
          fmt::format("model.kind '{}' computes with {} alone", out_.model.kind, text_of(wanted)));
  }
  void want(const std::string& key, const json& wanted) const { want(key, wanted, wanted); }
  /// Refuses every value but null.
  void want_none(const std::string& key) const { want(key, nullptr); }

  ModelConfig& model() const { return out_.model; }
  void state(const std::string& key, std::string_view ours, const json& found) const {
    const bool given = has(key);
    out_.keys.push_back({std::string(ours), name_ + key,
                         text_of(found) + (given ? "" : " (the default of its model_type)")});
  }
  [[noreturn]] void refuse(const std::string& key, const json& found, std::string_view why) const {
    throw Error("{}: {}{} = {}: {}", out_.file, name_, key, text_of(found), why);
  }

 private:
  StatedModel& out_;
  json object_;
  std::string name_;  // "text_config." within the file; empty for the whole file
};

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

std::optional<ModelActivation> activation_named(const json& name) {
  for (const auto& [theirs, ours] : named_activations)
    if (name == theirs) return ours;
  return {};
}

void Object::take_activation(const std::string& key, std::string_view otherwise) const {
  const json found = value(key, otherwise);
  const auto activation = activation_named(found);
  if (!activation || !has_activation(out_.model.kind, *activation))
    refuse(key, found, fmt::format("the MLP of model.kind '{}' does not have it", out_.model.kind));
  out_.model.activation = *activation;
  state(key, "activation", found);
}

/// Rotary positions: rope_theta and rope_scaling, or, since Transformers 5, rope_parameters with
/// both. What is stretched is what core/device/ops/attention.h says of Rotary.
void take_rotary(const Object& file) {
  const Object newer = file.object("rope_parameters"), older = file.object("rope_scaling");
  const Object& scaling = newer.empty() ? older : newer;
  (newer.empty() ? file : newer)
      .take_number("rope_theta", "rope_base", file.model().rope_base, 10000);
  const std::string key = scaling.has("type") && !scaling.has("rope_type") ? "type" : "rope_type";
  const json type = scaling.value(key, "default");
  if (type == "llama3") {
    scaling.take_number("factor", "rope_factor", file.model().rope_factor, 1);
    scaling.want("low_freq_factor", 1.0);
    scaling.want("high_freq_factor", 4.0);
    scaling.want("original_max_position_embeddings", 8192);
  } else if (type == "default") {
    file.model().rope_factor = 1;
    scaling.state(key, "rope_factor", type);
  } else {
    scaling.refuse(key, type, "rotary positions are stretched as in 'llama3' alone");
  }
}

/// A Llama, or the decoder of another model.
void take_llama(const Object& file, double epsilon) {
  ModelConfig& m = file.model();
  file.take_size("num_hidden_layers", "layers", m.layers, 32);
  file.take_size("num_attention_heads", "heads", m.heads, 32);
  file.take_size("hidden_size", "width", m.width, 4096);
  file.take_size("num_key_value_heads", "kv_heads", m.kv_heads, m.heads);
  file.take_size("intermediate_size", "hidden", m.hidden, 11008);
  file.take_size("vocab_size", "vocabulary", m.vocabulary, 32000);
  file.take_number("rms_norm_eps", "epsilon", m.epsilon, epsilon);
  file.take_activation("hidden_act", "silu");
  take_rotary(file);
  file.want("head_dim", m.width / m.heads);
  for (const char* key : {"attention_bias", "mlp_bias", "use_qk_norm", "qk_layer_norms",
                          "use_sliding_window", "is_encoder_decoder"})
    file.want(key, false);
  for (const char* key : {"sliding_window", "attn_logit_softcapping", "final_logit_softcapping"})
    file.want_none(key);
  file.want("partial_rotary_factor", 1.0);
}

void read_llama(const Object& file) {
  take_llama(file, 1e-6);
  file.take_flag("tie_word_embeddings", "tied", file.model().tied, false);
}

void read_gpt2(const Object& file) {
  ModelConfig& m = file.model();
  file.take_size("n_layer", "layers", m.layers, 12);
  file.take_size("n_head", "heads", m.heads, 12);
  file.take_size("n_embd", "width", m.width, 768);
  file.take_size("n_positions", "positions", m.positions, 1024);
  file.take_size("vocab_size", "vocabulary", m.vocabulary, 50257);
  file.take_number("layer_norm_epsilon", "epsilon", m.epsilon, 1e-5);
  file.take_activation("activation_function", "gelu_new");
  file.take_flag("tie_word_embeddings", "tied", m.tied, true);
  file.want("n_inner", 4 * m.width);
  file.want("scale_attn_weights", true);
  file.want("scale_attn_by_inverse_layer_idx", false);
  file.want("add_cross_attention", false);
}

void read_bert(const Object& file) {
  ModelConfig& m = file.model();
  file.take_size("num_hidden_layers", "layers", m.layers, 12);
  file.take_size("num_attention_heads", "heads", m.heads, 12);
  file.take_size("hidden_size", "width", m.width, 768);
  file.take_size("max_position_embeddings", "positions", m.positions, 512);
  file.take_size("type_vocab_size", "segments", m.segments, 2);
  file.take_size("vocab_size", "vocabulary", m.vocabulary, 30522);
  file.take_number("layer_norm_eps", "epsilon", m.epsilon, 1e-12);
  file.take_activation("hidden_act", "gelu");
  file.want("intermediate_size", 4 * m.width, 3072);
  file.want("position_embedding_type", "absolute");
  file.want("is_decoder", false);
  file.want("add_cross_attention", false);
  file.want("tie_word_embeddings", true);
}

void read_t5(const Object& file) {
  ModelConfig& m = file.model();
  file.take_size("num_layers", "layers", m.layers, 6);
  file.take_size("num_heads", "heads", m.heads, 8);
  file.take_size("d_model", "width", m.width, 512);
  file.take_size("d_kv", "head_width", m.head_width, 64);
  file.take_size("d_ff", "hidden", m.hidden, 2048);
  file.take_size("relative_attention_num_buckets", "relative_buckets", m.relative_buckets, 32);
  file.take_size("relative_attention_max_distance", "relative_distance", m.relative_distance, 128);
  file.take_size("vocab_size", "vocabulary", m.vocabulary, 32128);
  file.take_number("layer_norm_epsilon", "epsilon", m.epsilon, 1e-6);
  file.take_activation("feed_forward_proj", "relu");
  file.want("dense_act_fn", file.value("feed_forward_proj", "relu"));
  file.want("num_decoder_layers", m.layers);
  file.want("is_gated_act", false);
  file.want("is_encoder_decoder", true);
  file.want("tie_word_embeddings", true);
}

void read_idefics3(const Object& file) {
  ModelConfig& m = file.model();
  const Object text = file.object("text_config"), vision = file.object("vision_config");
  text.want("model_type", "llama");
  take_llama(text, text.empty() ? 1e-5 : 1e-6);
  file.take_flag("tie_word_embeddings", "tied", m.tied, false);
  if (const json tied = text.value("tie_word_embeddings", m.tied); tied != m.tied)
    text.refuse("tie_word_embeddings", tied, "the file's own tie_word_embeddings says otherwise");
  file.take_size("scale_factor", "shuffle", m.shuffle, 2);
  vision.take_size("image_size", "image", m.image, 224);
  vision.take_size("num_channels", "channels", m.channels, 3);
  vision.take_size("patch_size", "patch", m.patch, 32);
  vision.take_size("num_hidden_layers", "vision_layers", m.vision_layers, 12);
  vision.take_size("num_attention_heads", "vision_heads", m.vision_heads, 16);
  vision.take_size("hidden_size", "vision_width", m.vision_width, 1152);
  vision.take_size("intermediate_size", "vision_hidden", m.vision_hidden, 3072);
  vision.want("layer_norm_eps", 1e-6);
  const json activation = vision.value("hidden_act", "gelu_pytorch_tanh");
  if (activation_named(activation) != ModelActivation::gelu_tanh)
    vision.refuse("hidden_act", activation,
                  "vision of model.kind 'idefics3' computes with gelu_tanh alone");
}

struct Family {
  std::string_view model_type, kind;
  void (*read)(const Object& file);
};
constexpr Family families[] = {{"gpt2", "gpt", read_gpt2},
                               {"llama", "llama", read_llama},
                               {"bert", "bert", read_bert},
                               {"t5", "t5", read_t5},
                               {"idefics3", "idefics3", read_idefics3}};

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
  return std::any_of(std::begin(families), std::end(families),
                     [&](const Family& family) { return family.kind == kind; });
}

StatedModel read_hugging_face_config(const std::filesystem::path& file, std::string_view setting) {
  StatedModel out{.file = file.string(), .model = {}, .keys = {}};
  const Object config(out, read_object(file, setting));
  const json type = config.value("model_type", "");
  for (const Family& family : families) {
    if (type != family.model_type) continue;
    out.model.kind = family.kind;
    config.state("model_type", "kind", type);
    family.read(config);
    return out;
  }
  std::vector<std::string_view> known;
  for (const Family& family : families) known.push_back(family.model_type);
  config.refuse("model_type", type, fmt::format("[model] has {}", fmt::join(known, ", ")));
}

}  // namespace ringside
