#include "core/models/bert.h"

#include "core/base/error.h"
#include "core/models/bert_head.h"
#include "core/models/model_defaults.h"
#include "core/models/published_config.h"
#include "core/nn/attention.h"
#include "core/nn/dropout.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/sample_parts.h"

namespace ringside {
namespace {

using bert::normal;
using layer::zeros;

/// Maps int32 [B, 2 * context + masked] to [B, context, width].
class BertEmbedding final : public Unit {
 public:
  BertEmbedding(const ModelConfig& c, Device& device)
      : Unit("embedding", device),
        config_(c),
        table_(*this, "table", c.vocabulary, rows_of_positions(c), c.width, normal),
        segments_(*this, "segments", c.segments, 0, c.width, normal),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout) {}

  std::shared_ptr<TiedTable> share() { return table_.share(bert::table); }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t context = config_.context, masked = config_.masked;
    const auto columns = [&](std::int64_t begin, std::int64_t count) {
      return layer::take_part(device(), input, input.shape()[0], begin, count, MemoryKind::data);
    };
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != 2 * context + masked)
      throw Error(
          "unit {}: input has shape {}; it must be [samples, n] with n = {} tokens and segments "
          "plus {} positions",
          name(), in.text(), 2 * context, masked);
    // When this forward is repeated, the head has already taken the positions and needs no others.
    if (!pass.again) saved.side()[bert::asked].value = columns(2 * context, masked);
    const Tensor x = table_.forward(columns(0, context), pass, saved);
    const Tensor s = segments_.forward(columns(context, context), pass, saved);
    const Tensor y = norm_.forward(x, s, pass, saved);
    return dropout_.forward(y, in[0], pass, saved).reshaped({in[0], context, config_.width});
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor d = norm_.backward(dropout_.backward(grad_output, saved), {}, saved);
    table_.backward(d, saved);
    segments_.backward(d, saved);
    return {};
  }

 private:
  ModelConfig config_;
  Embedding table_, segments_;
  LayerNorm norm_;
  DropoutLayer dropout_;
};

/// x = norm(x + attention(x)); x = norm(x + mlp(x))
class BertBlock final : public Unit {
 public:
  BertBlock(std::string name, const ModelConfig& c, Device& device)
      : Unit(std::move(name), device),
        attention_(*this, "attention",
                   {.width = c.width,
                    .heads = c.heads,
                    .key_heads = c.heads,
                    .causal = false,
                    .qkv = normal,
                    .out = normal}),
        attention_dropout_(*this, "attention.dropout", c.dropout),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        expand_(*this, "mlp.in", c.width, 4 * c.width, normal, zeros, activation_of(c)),
        contract_(*this, "mlp.out", 4 * c.width, c.width, normal, zeros),
        mlp_dropout_(*this, "mlp.dropout", c.dropout),
        norm2_(*this, "norm2", c.width, epsilon_of(c)) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0];
    Tensor x = attention_.forward(input, samples, pass, saved);
    x = attention_dropout_.forward(x, samples, pass, saved);
    const Tensor between = norm1_.forward(x, input, pass, saved);
    x = expand_.forward(between, pass, saved);
    x = contract_.forward(x, pass, saved);
    x = mlp_dropout_.forward(x, samples, pass, saved);
    return norm2_.forward(x, between, pass, saved).reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    Tensor around = norm2_.backward(grad_output, {}, saved);
    Tensor d = contract_.backward(mlp_dropout_.backward(around, saved), saved);
    d = expand_.backward(d, saved);
    device().kernels().add({.in = around, .out = d});
    around = norm1_.backward(d, {}, saved);
    d = attention_.backward(attention_dropout_.backward(around, saved), saved);
    device().kernels().add({.in = around, .out = d});
    return d.reshaped(grad_output.shape());
  }

 private:
  SelfAttention attention_;
  DropoutLayer attention_dropout_;
  LayerNorm norm1_;
  Linear expand_, contract_;
  DropoutLayer mlp_dropout_;
  LayerNorm norm2_;
};

using naming::Order;
constexpr naming::Rule bert_rules[] = {
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

/// As in Hugging Face's BertForPreTraining.
Names bert_names(const Model& model) {
  Names names{.tensors = naming::by_rules(model, bert_rules),
              .renamed = {{".LayerNorm.weight", ".LayerNorm.gamma"},
                          {".LayerNorm.bias", ".LayerNorm.beta"}},
              .ignored = {".position_ids"}};
  names.ties = {{"cls.predictions.decoder.weight",
                 naming::index_of(names, "bert.embeddings.word_embeddings.weight")},
                {"cls.predictions.decoder.bias", naming::index_of(names, "cls.predictions.bias")}};
  return names;
}

void read_bert(const PublishedConfig& file) {
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

std::vector<Preset> bert_presets() {
  constexpr std::string_view devlin = "Devlin et al. 2018, uncased";
  const auto bert = [](std::int64_t layers, std::int64_t heads, std::int64_t width) {
    return ModelConfig{.kind = "bert",
                       .layers = layers,
                       .heads = heads,
                       .width = width,
                       .context = 512,
                       .positions = 512,
                       .vocabulary = 30522,
                       .dropout = 0.1,
                       .masked = 76};  // 15% of 512
  };
  return {{"bert-base", devlin, bert(12, 12, 768), 110'106'428, 109'482'240},
          {"bert-large", devlin, bert(24, 16, 1024), 336'226'108, 335'141'888}};
}

}  // namespace

Model make_bert(const ModelConfig& config, Device& device) {
  check_transformer(config);
  check_sizes(config, {"masked", "segments"});
  if (config.masked > config.context)
    throw Error("model.masked = {} is more than model.context = {}; lower it", config.masked,
                config.context);
  Model model;
  auto embedding = std::make_unique<BertEmbedding>(config, device);
  auto head = bert::make_head(config, *embedding, embedding->share(), device);
  model.units.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.units.push_back(std::make_unique<BertBlock>(fmt::format("block.{}", i), config, device));
  model.units.push_back(std::move(head));
  const std::size_t last = model.units.size() - 1;
  model.edges.resize(2);
  model.edges[bert::asked] = {"positions", Edge::Kind::data, 0, last};
  model.edges[bert::table] = {"table", Edge::Kind::table, 0, last};
  model.task = Task::masked_tokens;
  model.input = {2 * config.context + config.masked};
  model.terms = {{config.masked, config.vocabulary}, {1, 2}};
  return model;
}

ModelInfo bert_info() {
  return {.name = "bert",
          .summary =
              "encoder-only transformer with both heads of its pre-training; "
              "each block is one unit",
          .make = make_bert,
          .attention = true,
          .keys = {"layers", "heads", "width", "positions", "segments", "vocabulary", "epsilon",
                   "activation"},
          .sample_keys = {"context", "target_context"},
          .epsilon = 1e-12,
          .activation = ModelActivation::gelu,
          .complete = [](ModelConfig& c) { c.positions = rows_of_positions(c); },
          .presets = bert_presets,
          .names = [](const Model& model, const ModelConfig&) { return bert_names(model); },
          .model_type = "bert",
          .read = read_bert};
}

}  // namespace ringside
