#include "core/interchange/names.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/interchange/name_rules.h"

namespace ringside {
namespace {

using naming::Order;
using naming::Rule;

constexpr Rule gpt_rules[] = {
    {"embedding", "table.tokens", "transformer.wte.weight", Order::tokens},
    {"embedding", "table.positions", "transformer.wpe.weight"},
    {"block.*", "norm1.weight", "transformer.h.*.ln_1.weight"},
    {"block.*", "norm1.bias", "transformer.h.*.ln_1.bias"},
    {"block.*", "attention.qkv.weight", "transformer.h.*.attn.c_attn.weight", Order::transposed},
    {"block.*", "attention.qkv.bias", "transformer.h.*.attn.c_attn.bias"},
    {"block.*", "attention.out.weight", "transformer.h.*.attn.c_proj.weight", Order::transposed},
    {"block.*", "attention.out.bias", "transformer.h.*.attn.c_proj.bias"},
    {"block.*", "norm2.weight", "transformer.h.*.ln_2.weight"},
    {"block.*", "norm2.bias", "transformer.h.*.ln_2.bias"},
    {"block.*", "mlp.in.weight", "transformer.h.*.mlp.c_fc.weight", Order::transposed},
    {"block.*", "mlp.in.bias", "transformer.h.*.mlp.c_fc.bias"},
    {"block.*", "mlp.out.weight", "transformer.h.*.mlp.c_proj.weight", Order::transposed},
    {"block.*", "mlp.out.bias", "transformer.h.*.mlp.c_proj.bias"},
    {"head", "norm.weight", "transformer.ln_f.weight"},
    {"head", "norm.bias", "transformer.ln_f.bias"},
    {"head", "logits.weight", "lm_head.weight", Order::tokens},
};

constexpr Rule llmc_rules[] = {
    {"embedding", "table.tokens", "wte", Order::tokens},
    {"embedding", "table.positions", "wpe"},
    {"block.*", "norm1.weight", "ln1w.*"},
    {"block.*", "norm1.bias", "ln1b.*"},
    {"block.*", "attention.qkv.weight", "qkvw.*"},
    {"block.*", "attention.qkv.bias", "qkvb.*"},
    {"block.*", "attention.out.weight", "attprojw.*"},
    {"block.*", "attention.out.bias", "attprojb.*"},
    {"block.*", "norm2.weight", "ln2w.*"},
    {"block.*", "norm2.bias", "ln2b.*"},
    {"block.*", "mlp.in.weight", "fcw.*"},
    {"block.*", "mlp.in.bias", "fcb.*"},
    {"block.*", "mlp.out.weight", "fcprojw.*"},
    {"block.*", "mlp.out.bias", "fcprojb.*"},
    {"head", "norm.weight", "lnfw"},
    {"head", "norm.bias", "lnfb"},
};

constexpr Rule bert_rules[] = {
    {"embedding", "table.tokens", "bert.embeddings.word_embeddings.weight", Order::tokens},
    {"embedding", "table.positions", "bert.embeddings.position_embeddings.weight"},
    {"embedding", "segments.tokens", "bert.embeddings.token_type_embeddings.weight"},
    {"embedding", "norm.weight", "bert.embeddings.LayerNorm.weight"},
    {"embedding", "norm.bias", "bert.embeddings.LayerNorm.bias"},
    {"block.*", "attention.qkv.weight", "bert.encoder.layer.*.attention.self.query.weight",
     Order::same, 0, 3},
    {"block.*", "attention.qkv.weight", "bert.encoder.layer.*.attention.self.key.weight",
     Order::same, 1, 3},
    {"block.*", "attention.qkv.weight", "bert.encoder.layer.*.attention.self.value.weight",
     Order::same, 2, 3},
    {"block.*", "attention.qkv.bias", "bert.encoder.layer.*.attention.self.query.bias", Order::same,
     0, 3},
    {"block.*", "attention.qkv.bias", "bert.encoder.layer.*.attention.self.key.bias", Order::same,
     1, 3},
    {"block.*", "attention.qkv.bias", "bert.encoder.layer.*.attention.self.value.bias", Order::same,
     2, 3},
    {"block.*", "attention.out.weight", "bert.encoder.layer.*.attention.output.dense.weight"},
    {"block.*", "attention.out.bias", "bert.encoder.layer.*.attention.output.dense.bias"},
    {"block.*", "norm1.weight", "bert.encoder.layer.*.attention.output.LayerNorm.weight"},
    {"block.*", "norm1.bias", "bert.encoder.layer.*.attention.output.LayerNorm.bias"},
    {"block.*", "mlp.in.weight", "bert.encoder.layer.*.intermediate.dense.weight"},
    {"block.*", "mlp.in.bias", "bert.encoder.layer.*.intermediate.dense.bias"},
    {"block.*", "mlp.out.weight", "bert.encoder.layer.*.output.dense.weight"},
    {"block.*", "mlp.out.bias", "bert.encoder.layer.*.output.dense.bias"},
    {"block.*", "norm2.weight", "bert.encoder.layer.*.output.LayerNorm.weight"},
    {"block.*", "norm2.bias", "bert.encoder.layer.*.output.LayerNorm.bias"},
    {"head", "pooler.weight", "bert.pooler.dense.weight"},
    {"head", "pooler.bias", "bert.pooler.dense.bias"},
    {"head", "follows.weight", "cls.seq_relationship.weight"},
    {"head", "follows.bias", "cls.seq_relationship.bias"},
    {"head", "transform.weight", "cls.predictions.transform.dense.weight"},
    {"head", "transform.bias", "cls.predictions.transform.dense.bias"},
    {"head", "norm.weight", "cls.predictions.transform.LayerNorm.weight"},
    {"head", "norm.bias", "cls.predictions.transform.LayerNorm.bias"},
    {"head", "tokens.bias", "cls.predictions.bias", Order::tokens},
};

/// The heads of queries, keys and values share one parameter; in files each kind has its own.
std::vector<Rule> llama_rules(const ModelConfig& config) {
  const std::int64_t heads = config.heads;
  const std::int64_t kv_heads = config.kv_heads == 0 ? heads : config.kv_heads;
  const std::int64_t all = heads + 2 * kv_heads;
  return {
      {"embedding", "table.tokens", "model.embed_tokens.weight", Order::tokens},
      {"block.*", "norm1.weight", "model.layers.*.input_layernorm.weight"},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.q_proj.weight", Order::same, 0,
       all, heads},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.k_proj.weight", Order::same,
       heads, all, kv_heads},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.v_proj.weight", Order::same,
       heads + kv_heads, all, kv_heads},
      {"block.*", "attention.out.weight", "model.layers.*.self_attn.o_proj.weight"},
      {"block.*", "norm2.weight", "model.layers.*.post_attention_layernorm.weight"},
      {"block.*", "mlp.in.weight", "model.layers.*.mlp.gate_proj.weight", Order::same, 0, 2},
      {"block.*", "mlp.in.weight", "model.layers.*.mlp.up_proj.weight", Order::same, 1, 2},
      {"block.*", "mlp.out.weight", "model.layers.*.mlp.down_proj.weight"},
      {"head", "norm.weight", "model.norm.weight"},
      {"head", "logits.weight", "lm_head.weight", Order::tokens},
  };
}

constexpr Rule mlp_rules[] = {
    {"embedding", "table.tokens", "embedding.weight", Order::tokens},
    {"hidden.*", "linear.weight", "hidden.*.weight"},
    {"hidden.*", "linear.bias", "hidden.*.bias"},
    {"head", "linear.weight", "head.weight"},
    {"head", "linear.bias", "head.bias"},
};

/// Returns what stands at the '*' of `pattern`, or nothing if the name does not match.
std::optional<std::string> match(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos)
    return pattern == name ? std::optional<std::string>("") : std::nullopt;
  if (!name.starts_with(pattern.substr(0, star))) return {};
  return std::string(name.substr(star));
}

std::string filled(std::string_view pattern, const std::string& number) {
  std::string out(pattern);
  if (const auto star = out.find('*'); star != std::string::npos) out.replace(star, 1, number);
  return out;
}

/// Sets the extents and strides of `tensor` for a file that has the axes of its shape in another
/// order: axis i in the file is axis axes[i] of the shape.
void store_axes(NamedTensor& tensor, std::initializer_list<std::size_t> axes) {
  tensor.extents.clear();
  for (const std::size_t axis : axes) tensor.extents.push_back(tensor.shape[axis]);
  std::int64_t stride = 1;
  for (auto axis = std::rbegin(axes); axis != std::rend(axes); ++axis) {
    tensor.strides[*axis] = stride;
    stride *= tensor.shape[*axis];
  }
}

void store_same(NamedTensor& tensor) {
  switch (tensor.shape.rank()) {
    case 1:
      return store_axes(tensor, {0});
    case 2:
      return store_axes(tensor, {0, 1});
    case 3:
      return store_axes(tensor, {0, 1, 2});
    default:
      return store_axes(tensor, {0, 1, 2, 3});
  }
}

/// Stores [K, R, S, C] as [K, C, R, S].
void store_channels_first(NamedTensor& tensor) { store_axes(tensor, {0, 3, 1, 2}); }

NamedTensor named_by(const Rule& rule, const std::string& number, std::size_t unit,
                     const Parameter& parameter) {
  NamedTensor out{.name = filled(rule.name, number),
                  .unit = unit,
                  .begin = parameter.begin,
                  .shape = parameter.shape};
  if (rule.parts > 1) {
    const std::int64_t rows = parameter.shape[0] / rule.parts;
    const std::int64_t columns = parameter.shape.count() / parameter.shape[0];
    out.shape =
        parameter.shape.rank() == 1 ? Shape{rule.count * rows} : Shape{rule.count * rows, columns};
    out.begin += rule.part * rows * columns;
  }
  out.tokens = rule.order == Order::tokens;
  if (rule.order == Order::joined_columns)
    out.shape = {out.shape[0], out.shape.count() / out.shape[0]};
  if (rule.order == Order::transposed)
    store_axes(out, {1, 0});
  else if (rule.order == Order::channels_first)
    store_channels_first(out);
  else
    store_same(out);
  return out;
}

std::vector<NamedTensor> by_rules(const Model& model, std::span<const Rule> rules) {
  std::vector<NamedTensor> out;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    for (const Parameter& parameter : unit.layout().parameters()) {
      const std::size_t before = out.size();
      for (const Rule& rule : rules)
        if (const auto number = match(rule.unit, unit.name());
            number && rule.parameter == parameter.name)
          out.push_back(named_by(rule, *number, u, parameter));
      if (out.size() == before)
        throw Error("unit {}: files of weights cannot hold parameter {}", unit.name(),
                    parameter.name);
    }
  }
  return out;
}

std::size_t index_of(const Names& names, std::string_view name) {
  const auto at = std::find_if(names.tensors.begin(), names.tensors.end(),
                               [&](const NamedTensor& tensor) { return tensor.name == name; });
  if (at == names.tensors.end()) throw Error("there is no tensor {}", name);
  return static_cast<std::size_t>(at - names.tensors.begin());
}

Names gpt_names(const Model& model) {
  Names names{.tensors = by_rules(model, gpt_rules),
              .prefix = "transformer.",
              .ignored = {".attn.bias", ".attn.masked_bias"}};
  if (model.units.back()->lender())
    names.ties = {{"lm_head.weight", index_of(names, "transformer.wte.weight")}};
  return names;
}

Names llama_names(const Model& model, const ModelConfig& config) {
  Names names{.tensors = by_rules(model, llama_rules(config)),
              .prefix = "model.",
              .ignored = {".rotary_emb.inv_freq"}};
  if (model.units.back()->lender())
    names.ties = {{"lm_head.weight", index_of(names, "model.embed_tokens.weight")}};
  return names;
}

/// The decoder has Llama's names under a prefix; its table of tokens belongs to the connector.
Names idefics3_names(const Model& model, const ModelConfig& config) {
  constexpr std::string_view llamas = "model.", decoders = "model.text_model.";
  std::vector<Rule> rules = llama_rules(config);
  std::vector<std::string> renamed;
  renamed.reserve(rules.size());  // rules refer to the names
  for (Rule& rule : rules) {
    if (rule.unit == "embedding") rule.unit = "connector";
    if (rule.name.starts_with(llamas))
      rule.name =
          renamed.emplace_back(fmt::format("{}{}", decoders, rule.name.substr(llamas.size())));
  }
  const std::span<const Rule> vision = naming::vision_rules();
  rules.insert(rules.end(), vision.begin(), vision.end());
  Names names{.tensors = by_rules(model, rules),
              .prefix = "model.",
              .ignored = {".rotary_emb.inv_freq", ".position_ids"}};
  if (model.units.back()->lender())
    names.ties = {{"lm_head.weight", index_of(names, "model.text_model.embed_tokens.weight")}};
  return names;
}

Names bert_names(const Model& model) {
  Names names{.tensors = by_rules(model, bert_rules),
              .renamed = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                          {".LayerNorm.bias", ".LayerNorm.beta"}},
              .ignored = {".position_ids"}};
  names.ties = {
      {"cls.predictions.decoder.weight", index_of(names, "bert.embeddings.word_embeddings.weight")},
      {"cls.predictions.decoder.bias", index_of(names, "cls.predictions.bias")}};
  return names;
}

Names t5_names(const Model& model) {
  Names names{.tensors = by_rules(model, naming::t5_rules()),
              // The first files have biases for attention to the encoder, which nothing reads.
              .ignored = {".EncDecAttention.relative_attention_bias.weight"}};
  const std::size_t table = index_of(names, "shared.weight");
  names.ties = {{"lm_head.weight", table},
                {"encoder.embed_tokens.weight", table},
                {"decoder.embed_tokens.weight", table}};
  return names;
}

/// Parameters already have torchvision's names. In Ringside the columns of the first linear layer,
/// whose weight is called `first_linear`, are ordered by position, then channel; in torchvision by
/// channel, then position.
Names plain_names(const Model& model, const ModelConfig& config, std::string_view first_linear) {
  Names names;
  std::int64_t channels = config.channels;
  for (std::size_t u = 0; u < model.units.size(); ++u)
    for (const Parameter& parameter : model.units[u]->layout().parameters()) {
      NamedTensor tensor{.name = parameter.name, .unit = u, .begin = parameter.begin};
      tensor.shape = parameter.shape;
      const Shape& shape = parameter.shape;
      if (parameter.name == first_linear) {
        tensor.shape = {shape[0], shape[1] / channels, 1, channels};
        store_channels_first(tensor);
        tensor.extents = {shape[0], shape[1]};
      } else if (shape.rank() == 4) {
        store_channels_first(tensor);
      } else {
        store_same(tensor);
      }
      if (shape.rank() == 4) channels = shape[0];
      names.tensors.push_back(tensor);
    }
  return names;
}

/// Of resnet and inception: "UNIT.PARAMETER" is torchvision's name. Stem and head are no modules in
/// torchvision: for them the name is "PARAMETER" alone.
Names block_names(const Model& model) {
  Names names;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = *model.units[u];
    const bool alone = unit.name().starts_with("stem") || unit.name() == "head";
    const std::string prefix = alone ? "" : unit.name() + ".";
    for (const Parameter& parameter : unit.layout().parameters()) {
      NamedTensor& tensor = names.tensors.emplace_back(
          NamedTensor{.name = prefix + parameter.name, .unit = u, .begin = parameter.begin});
      tensor.shape = parameter.shape;
      if (parameter.shape.rank() == 4)
        store_channels_first(tensor);
      else
        store_same(tensor);
    }
    for (std::size_t s = 0; s < unit.statistics().size(); ++s) {
      const Unit::Statistic& statistic = unit.statistics()[s];
      NamedTensor tensor{.name = prefix + statistic.name,
                         .source = NamedTensor::Source::statistic,
                         .unit = u,
                         .statistic = s,
                         .shape = statistic.values.shape()};
      store_same(tensor);
      names.tensors.push_back(tensor);
      if (const auto at = tensor.name.rfind("running_var"); at != std::string::npos)
        names.tensors.push_back({.name = tensor.name.substr(0, at) + "num_batches_tracked",
                                 .source = NamedTensor::Source::counter,
                                 .unit = u,
                                 .statistic = s});
    }
  }
  return names;
}

}  // namespace

Names names_of(const Model& model, const ModelConfig& config) {
  if (config.kind == "gpt") return gpt_names(model);
  if (config.kind == "llama") return llama_names(model, config);
  if (config.kind == "bert") return bert_names(model);
  if (config.kind == "idefics3") return idefics3_names(model, config);
  if (config.kind == "t5") return t5_names(model);
  if (config.kind == "resnet" || config.kind == "inception") return block_names(model);
  if (config.kind == "vgg") return plain_names(model, config, "classifier.0.weight");
  if (config.kind == "alexnet") return plain_names(model, config, "classifier.1.weight");
  if (config.kind == "mlp") return {.tensors = by_rules(model, mlp_rules)};
  throw Error("model.kind = '{}': files of weights cannot hold a model of this kind", config.kind);
}

Names llmc_names_of(const Model& model) {
  if (!model.units.back()->lender())
    throw Error("model files of llm.c use one table for embedding and head; set model.tied = true");
  return {.tensors = by_rules(model, llmc_rules)};
}

}  // namespace ringside
