#include "core/models/t5.h"

#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/models/model_defaults.h"
#include "core/models/published_config.h"
#include "core/models/t5_blocks.h"
#include "core/nn/decoder_layers.h"
#include "core/nn/dropout.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/layers.h"

namespace ringside {
namespace {

constexpr Init unit_normal{Init::Kind::normal, 1};
constexpr std::int64_t most_elements_of_heads = 1 << 20;

void check_t5(const ModelConfig& c) {
  check_sizes(c, {"layers", "heads", "width", "context", "vocabulary"});
  check_dropout(c);
  const auto& [head_width, relative_buckets, relative_distance] = c.own<T5Options>();
  const auto at_least = [](std::string_view name, std::int64_t value) {
    if (value < 0)
      throw Error("model.{} = {} is too small; it has to be 1 or more, or 0", name, value);
  };
  at_least("target_context", c.target_context);
  at_least("head_width", head_width);
  at_least("hidden", c.hidden);
  if (head_width == 0 && c.width % c.heads != 0)
    throw Error(
        "model.heads = {} does not divide model.width = {}; choose a divisor, or set "
        "model.head_width",
        c.heads, c.width);
  if (c.heads * completed(c).own<T5Options>().head_width > most_elements_of_heads)
    throw Error("model.heads = {} heads of model.head_width = {} have more than {} elements",
                c.heads, head_width, most_elements_of_heads);
  if (relative_buckets < 4 || relative_buckets % 2 != 0)
    throw Error("model.relative_buckets = {}: choose an even number, 4 or more", relative_buckets);
  if (relative_distance <= relative_buckets / 2)
    throw Error(
        "model.relative_distance = {} is too small; it has to be more than half of "
        "model.relative_buckets = {}",
        relative_distance, relative_buckets);
}

/// The table of both sequences. Looks up all source tokens of the micro-batch, then all target
/// tokens, so that the gradient of the table is computed at once.
class T5Embedding final : public Unit {
 public:
  T5Embedding(const ModelConfig& c, Device& device)
      : Unit("embedding", device),
        source_(c.context),
        target_(c.target_context),
        width_(c.width),
        table_(*this, "table", c.vocabulary, 0, c.width, unit_normal),
        source_dropout_(*this, "source.dropout", c.dropout),
        target_dropout_(*this, "target.dropout", c.dropout) {}

  std::shared_ptr<TiedTable> share() { return table_.share(t5::table); }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != source_ + target_)
      throw Error(
          "unit {}: input has shape {}; it must be [samples, n] with n = {} source tokens plus {} "
          "target tokens",
          name(), in.text(), source_, target_);
    const std::int64_t samples = in[0], sources = samples * source_;
    const Tensor all = table_.forward(sorted(input), pass, saved);
    const Tensor source = all.view(0, {samples, source_, width_});
    const Tensor target = all.view(sources * width_, {samples, target_, width_});
    source_dropout_.forward(source, samples, pass, saved);
    target_dropout_.forward(target, samples, pass, saved);
    // When this forward is repeated, the decoder has already read its stream.
    if (!pass.again) saved.side()[t5::embedded].value = target;
    return source;
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const std::int64_t samples = grad_output.shape()[0], sources = samples * source_;
    const Kernels& kernels = device().kernels();
    const Tensor all = layer::workspace(*this, {samples * (source_ + target_), width_});
    const Tensor target = all.range(sources * width_, samples * target_ * width_);
    kernels.copy({.in = source_dropout_.backward(grad_output, saved),
                  .out = all.range(0, sources * width_)});
    if (const Tensor gradient = std::exchange(saved.side()[t5::embedded].gradient, {}))
      kernels.copy({.in = target_dropout_.backward(gradient, saved), .out = target});
    else
      kernels.fill({.out = target});
    table_.backward(all, saved);
    return {};
  }

 private:
  /// int32 [1, n]: the source tokens of all samples, then the target tokens of all.
  Tensor sorted(const Tensor& input) const {
    const std::int64_t samples = input.shape()[0], both = source_ + target_;
    const Tensor out = device().tensor({1, samples * both}, MemoryKind::data, DType::i32);
    for (std::int64_t b = 0; b < samples; ++b) {
      const Kernels& kernels = device().kernels();
      kernels.copy({.in = input.range(b * both, source_), .out = out.range(b * source_, source_)});
      kernels.copy({.in = input.range(b * both + source_, target_),
                    .out = out.range(samples * source_ + b * target_, target_)});
    }
    return out;
  }

  std::int64_t source_, target_, width_;
  Embedding table_;
  DropoutLayer source_dropout_, target_dropout_;
};

/// Ends the encoder and begins the decoder.
class Bridge final : public Unit {
 public:
  Bridge(const ModelConfig& c, Device& device)
      : Unit("bridge", device),
        shape_(*this),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0];
    const Tensor x = dropout_.forward(norm_.forward(input, {}, pass, saved), samples, pass, saved);
    SideValues& side = saved.side();
    if (pass.keep) shape_.keep(saved, input.shape());
    if (!pass.again) side[t5::encoded].value = x.reshaped(input.shape());
    if (pass.training) return side[t5::embedded].value;
    side[t5::encoder_bias].value = {};
    return std::exchange(side[t5::embedded].value, {});
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Shape shape = shape_.take(saved);
    SideValues& side = saved.side();
    side[t5::embedded].value = side[t5::encoded].value = {};
    side[t5::embedded].gradient = grad_output;
    Tensor d = std::exchange(side[t5::encoded].gradient, {});
    if (!d) {
      d = layer::workspace(*this, shape);
      device().kernels().fill({.out = d});
    }
    return norm_.backward(dropout_.backward(d, saved), {}, saved).reshaped(shape);
  }

 private:
  Slot<Shape> shape_;
  RmsNorm norm_;
  DropoutLayer dropout_;
};

class T5Head final : public Unit {
 public:
  T5Head(const ModelConfig& c, T5Embedding& embedding, Device& device)
      : Unit("head", device),
        lender_(embedding),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(c.width)))),
        shape_(*this),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        dropout_(*this, "dropout", c.dropout),
        logits_(*this, "logits", embedding.share(), std::nullopt) {}

  const Unit* lender() const override { return &lender_; }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    if (pass.keep) shape_.keep(saved, input.shape());
    SideValues& side = saved.side();
    if (!pass.training) side[t5::encoded].value = side[t5::decoder_bias].value = {};
    const Tensor normal = norm_.forward(input, {}, pass, saved);
    const Tensor x = dropout_.forward(normal, input.shape()[0], pass, saved);
    const Tensor scaled = layer::activation(*this, x.shape());
    device().kernels().blend({.in = x, .out = scaled, .in_scale = scale_});
    return logits_.forward(scaled, pass, saved);
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor scaled = logits_.backward(grad_output, saved);
    const Tensor d = layer::workspace(*this, scaled.shape());
    device().kernels().blend({.in = scaled, .out = d, .in_scale = scale_});
    return norm_.backward(dropout_.backward(d, saved), {}, saved).reshaped(shape_.take(saved));
  }

 private:
  const Unit& lender_;
  float scale_;
  Slot<Shape> shape_;
  RmsNorm norm_;
  DropoutLayer dropout_;
  Linear logits_;
};

constexpr naming::Rule t5_rules[] = {
    {"embedding", "table.tokens", "shared.weight", naming::Order::tokens},
    {"encoder.*", "norm1.weight", "encoder.block.*.layer.0.layer_norm.weight"},
    {"encoder.*", "attention.q.weight", "encoder.block.*.layer.0.SelfAttention.q.weight"},
    {"encoder.*", "attention.kv.weight", "encoder.block.*.layer.0.SelfAttention.k.weight",
     naming::Order::same, 0, 2},
    {"encoder.*", "attention.kv.weight", "encoder.block.*.layer.0.SelfAttention.v.weight",
     naming::Order::same, 1, 2},
    {"encoder.*", "attention.out.weight", "encoder.block.*.layer.0.SelfAttention.o.weight"},
    {"encoder.*", "attention.bias.buckets",
     "encoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"encoder.*", "norm2.weight", "encoder.block.*.layer.1.layer_norm.weight"},
    {"encoder.*", "mlp.in.weight", "encoder.block.*.layer.1.DenseReluDense.wi.weight"},
    {"encoder.*", "mlp.out.weight", "encoder.block.*.layer.1.DenseReluDense.wo.weight"},
    {"bridge", "norm.weight", "encoder.final_layer_norm.weight"},
    {"decoder.*", "norm1.weight", "decoder.block.*.layer.0.layer_norm.weight"},
    {"decoder.*", "attention.q.weight", "decoder.block.*.layer.0.SelfAttention.q.weight"},
    {"decoder.*", "attention.kv.weight", "decoder.block.*.layer.0.SelfAttention.k.weight",
     naming::Order::same, 0, 2},
    {"decoder.*", "attention.kv.weight", "decoder.block.*.layer.0.SelfAttention.v.weight",
     naming::Order::same, 1, 2},
    {"decoder.*", "attention.out.weight", "decoder.block.*.layer.0.SelfAttention.o.weight"},
    {"decoder.*", "attention.bias.buckets",
     "decoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight"},
    {"decoder.*", "norm2.weight", "decoder.block.*.layer.1.layer_norm.weight"},
    {"decoder.*", "cross.q.weight", "decoder.block.*.layer.1.EncDecAttention.q.weight"},
    {"decoder.*", "cross.kv.weight", "decoder.block.*.layer.1.EncDecAttention.k.weight",
     naming::Order::same, 0, 2},
    {"decoder.*", "cross.kv.weight", "decoder.block.*.layer.1.EncDecAttention.v.weight",
     naming::Order::same, 1, 2},
    {"decoder.*", "cross.out.weight", "decoder.block.*.layer.1.EncDecAttention.o.weight"},
    {"decoder.*", "norm3.weight", "decoder.block.*.layer.2.layer_norm.weight"},
    {"decoder.*", "mlp.in.weight", "decoder.block.*.layer.2.DenseReluDense.wi.weight"},
    {"decoder.*", "mlp.out.weight", "decoder.block.*.layer.2.DenseReluDense.wo.weight"},
    {"head", "norm.weight", "decoder.final_layer_norm.weight"},
};

/// As in Hugging Face's T5ForConditionalGeneration.
Names t5_names(const Model& model) {
  Names names{.tensors = naming::by_rules(model, t5_rules),
              // The first files have biases for attention to the encoder, which nothing reads.
              .ignored = {".EncDecAttention.relative_attention_bias.weight"}};
  const std::size_t table = naming::index_of(names, "shared.weight");
  names.ties = {{"lm_head.weight", table},
                {"encoder.embed_tokens.weight", table},
                {"decoder.embed_tokens.weight", table}};
  return names;
}

void read_t5(const PublishedConfig& file) {
  ModelConfig& m = file.model();
  T5Options& own = m.own<T5Options>();
  file.take_size("num_layers", "layers", m.layers, 6);
  file.take_size("num_heads", "heads", m.heads, 8);
  file.take_size("d_model", "width", m.width, 512);
  file.take_size("d_kv", "head_width", own.head_width, 64);
  file.take_size("d_ff", "hidden", m.hidden, 2048);
  file.take_size("relative_attention_num_buckets", "relative_buckets", own.relative_buckets, 32);
  file.take_size("relative_attention_max_distance", "relative_distance", own.relative_distance,
                 128);
  file.take_size("vocab_size", "vocabulary", m.vocabulary, 32128);
  file.take_number("layer_norm_epsilon", "epsilon", m.epsilon, 1e-6);
  file.take_activation("feed_forward_proj", "relu");
  file.want("dense_act_fn", file.value("feed_forward_proj", "relu"));
  file.want("num_decoder_layers", m.layers);
  file.want("is_gated_act", false);
  file.want("is_encoder_decoder", true);
  file.want("tie_word_embeddings", true);
}

std::vector<Preset> t5_presets() {
  constexpr std::string_view raffel = "Raffel et al. 2020, version 1.0";
  // Samples are as long as in its pre-training: a source of 512 tokens, and a target of 114.
  const auto t5 = [](std::int64_t layers, std::int64_t heads, std::int64_t head_width,
                     std::int64_t width, std::int64_t hidden) {
    return ModelConfig{.kind = "t5",
                       .layers = layers,
                       .heads = heads,
                       .width = width,
                       .context = 512,
                       .target_context = 114,
                       .hidden = hidden,
                       .vocabulary = 32128,
                       .dropout = 0.1}
        .with(T5Options{.head_width = head_width});
  };
  return {
      {"t5-small", raffel, t5(6, 8, 64, 512, 2048), 60'506'624},
      {"t5-base", raffel, t5(12, 12, 64, 768, 3072), 222'903'552},
      {"t5-large", raffel, t5(24, 16, 64, 1024, 4096), 737'668'096},
      {"t5-3b", raffel, t5(24, 32, 128, 1024, 16384), 2'851'598'336},
      {"t5-11b", raffel, t5(24, 128, 128, 1024, 65536), 11'307'321'344},
  };
}

/// Of a model with so many blocks in each stack.
std::vector<Edge> edges_of(std::size_t layers) {
  const std::size_t bridge = layers + 1, last_block = 2 * layers + 1;
  std::vector<Edge> out(t5::edges);
  out[t5::embedded] = {"embedded", Edge::Kind::activation, 0, bridge};
  out[t5::encoded] = {"encoded", Edge::Kind::activation, bridge, last_block};
  out[t5::encoder_bias] = {"encoder.bias", Edge::Kind::activation, 1, layers};
  out[t5::decoder_bias] = {"decoder.bias", Edge::Kind::activation, bridge + 1, last_block};
  out[t5::table] = {"table", Edge::Kind::table, 0, last_block + 1};
  return out;
}

void complete_t5(ModelConfig& c) {
  if (c.target_context == 0) c.target_context = c.context;
  T5Options& own = c.own<T5Options>();
  if (own.head_width == 0) own.head_width = c.width / c.heads;
  if (c.hidden == 0) c.hidden = 4 * c.width;
}

}  // namespace

Fields fields_of(T5Options& options) {
  return {
      {"head_width", &options.head_width,
       "t5: width of an attention head; 0 means width divided by heads", Range::not_negative},
      {"relative_buckets", &options.relative_buckets,
       "t5: number of buckets of distances from a query to a key; each has a bias for each head",
       Range::positive},
      {"relative_distance", &options.relative_distance,
       "t5: distance from which on all are in one bucket", Range::positive}};
}

Model make_t5(const ModelConfig& config, Device& device) {
  check_t5(config);
  const ModelConfig c = completed(config);
  Model model;
  auto embedding = std::make_unique<T5Embedding>(c, device);
  auto head = std::make_unique<T5Head>(c, *embedding, device);
  model.units.push_back(std::move(embedding));
  for (std::int64_t i = 0; i < c.layers; ++i)
    model.units.push_back(t5::make_encoder_block(i, c, device));
  model.units.push_back(std::make_unique<Bridge>(c, device));
  for (std::int64_t i = 0; i < c.layers; ++i)
    model.units.push_back(t5::make_decoder_block(i, c, device));
  model.units.push_back(std::move(head));
  model.edges = edges_of(static_cast<std::size_t>(c.layers));
  model.task = Task::target_tokens;
  model.input = {c.context + c.target_context};
  model.terms = {{c.target_context, c.vocabulary}};
  return model;
}

ModelInfo t5_info() {
  return {.name = "t5",
          .summary =
              "encoder and decoder with relative positions; "
              "each block of either is one unit",
          .make = make_t5,
          .attention = true,
          .keys = {"layers", "heads", "width", "head_width", "hidden", "relative_buckets",
                   "relative_distance", "vocabulary", "epsilon", "activation"},
          .sample_keys = {"context", "target_context"},
          .epsilon = 1e-6,
          .activation = ModelActivation::relu,
          .complete = complete_t5,
          .options = T5Options{},
          .largest = {{"head_width", 1 << 20},
                      {"relative_buckets", 1 << 20},
                      {"relative_distance", 1 << 24}},
          .presets = t5_presets,
          .names = [](const Model& model, const ModelConfig&) { return t5_names(model); },
          .model_type = "t5",
          .read = read_t5};
}

}  // namespace ringside
