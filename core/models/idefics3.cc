#include "core/models/idefics3.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/models/llama.h"
#include "core/models/model_defaults.h"
#include "core/models/pre_norm_block.h"
#include "core/models/published_config.h"
#include "core/nn/convolution.h"
#include "core/nn/decoder_layers.h"
#include "core/nn/layer_tensors.h"
#include "core/nn/position_table.h"
#include "core/nn/sample_parts.h"

namespace ringside {
namespace {

constexpr Init idefics3_normal{Init::Kind::normal, 0.02f};
constexpr float vision_epsilon = 1e-6f;
constexpr std::int64_t most_patches = 1 << 16;

const Idefics3Options& vision_of(const ModelConfig& c) { return c.own<Idefics3Options>(); }

/// Sizes that follow from those of images, patches and visual tokens.
struct Extents {
  explicit Extents(const ModelConfig& c) : Extents(c, vision_of(c)) {}

  std::int64_t pixels;   // values of an image
  std::int64_t side;     // patches in a row of an image
  std::int64_t patches;  // of an image
  std::int64_t visual;   // tokens of an image

 private:
  Extents(const ModelConfig& c, const Idefics3Options& v)
      : pixels(c.image * c.image * c.channels),
        side((c.image - v.patch) / v.patch + 1),
        patches(side * side),
        visual(patches / (v.shuffle * v.shuffle)) {}
};

/// The model's edges. The first unit gets the text together with the images; the connector removes
/// it when it needs it for the last time.
enum Idefics3Edges : std::size_t {
  text_edge,  // int32 [B, T]
  table_edge  // only if the table is tied
};

/// Maps int32 [B, pixels + T] (core/data/dataset.h, Task::caption_tokens) to [B, patches, width].
class Patches final : public Unit {
 public:
  Patches(const ModelConfig& c, Device& device)
      : Unit("patches", device),
        config_(c),
        vision_(vision_of(c)),
        of_(c),
        convolution_(*this, "convolution", c.channels, vision_.vision_width,
                     Kernel2d{.size = vision_.patch, .stride = vision_.patch, .padding = 0},
                     Convolution::After::bias, idefics3_normal),
        positions_(*this, "positions", of_.patches, vision_.vision_width, idefics3_normal) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != of_.pixels + config_.context)
      throw Error("unit {}: input {} is not [samples, n] with n = {} pixels plus {} tokens", name(),
                  in.text(), of_.pixels, config_.context);
    // When this forward is repeated, the connector still has the text, or needs it no more.
    if (!pass.again)
      saved.side()[text_edge].value =
          layer::take_part(device(), input, in[0], of_.pixels, config_.context, MemoryKind::data);
    const Tensor x = convolution_.forward(images(input), pass, saved);
    positions_.forward(x);
    return x.reshaped({in[0], of_.patches, vision_.vision_width});
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    positions_.backward(grad_output, saved);
    convolution_.backward(
        grad_output.reshaped({grad_output.shape()[0], of_.side, of_.side, vision_.vision_width}),
        saved, /*wanted=*/false);
    return {};
  }

 private:
  /// The images in the dtype in which the unit computes. The input holds the bits of fp32 values.
  Tensor images(const Tensor& input) const {
    const std::int64_t samples = input.shape()[0];
    const Tensor out =
        layer::activation(*this, {samples, config_.image, config_.image, config_.channels});
    for (std::int64_t b = 0; b < samples; ++b) {
      const Tensor bits = input.range(b * input.shape()[1], of_.pixels);
      device().kernels().cast(
          {.in = Tensor(bits.buffer(), bits.byte_offset(), bits.shape(), DType::f32),
           .out = out.range(b * of_.pixels, of_.pixels)});
    }
    return out;
  }

  ModelConfig config_;
  Idefics3Options vision_;
  Extents of_;
  Convolution convolution_;
  PositionTable positions_;
};

/// Maps [B, patches, vision width] to [B, visual + T, width]: visual tokens, then those of the
/// text.
class Connector final : public Unit {
 public:
  Connector(const ModelConfig& c, Device& device)
      : Unit("connector", device),
        config_(c),
        vision_(vision_of(c)),
        of_(c),
        norm_(*this, "norm", vision_.vision_width, vision_epsilon),
        // A pixel shuffle and a linear layer are a convolution without overlap: row k of the
        // layer's weight is kernel k, whose elements are in the same order.
        visual_(*this, "visual", vision_.vision_width, c.width,
                Kernel2d{.size = vision_.shuffle, .stride = vision_.shuffle, .padding = 0},
                Convolution::After::nothing, idefics3_normal),
        table_(*this, "table", c.vocabulary, /*positions=*/0, c.width, idefics3_normal) {}

  std::shared_ptr<TiedTable> share() { return table_.share(table_edge); }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const std::int64_t samples = input.shape()[0], context = config_.context;
    const Tensor x = norm_.forward(input, {}, pass, saved);
    const Tensor visual = visual_.forward(
        x.reshaped({samples, of_.side, of_.side, vision_.vision_width}), pass, saved);
    // In training, a forward that keeps nothing will be repeated, with the same text.
    const bool repeated = pass.training && !pass.keep;
    Tensor& caption = saved.side()[text_edge].value;
    const Tensor tokens = repeated ? caption : std::exchange(caption, {});
    const Tensor text = table_.forward(tokens, pass, saved);
    const Tensor y = layer::activation(*this, {samples, of_.visual + context, config_.width});
    layer::put_part(device(), visual, y, samples, 0);
    layer::put_part(device(), text, y, samples, of_.visual * config_.width);
    return y;
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const std::int64_t samples = grad_output.shape()[0];
    const std::int64_t visual = of_.visual * config_.width, text = config_.context * config_.width;
    const auto part = [&](std::int64_t begin, std::int64_t count) {
      return layer::take_part(device(), grad_output, samples, begin, count, MemoryKind::workspace);
    };
    table_.backward(part(visual, text), saved);
    const std::int64_t side = of_.side / vision_.shuffle;
    const Tensor d =
        visual_.backward(part(0, visual).reshaped({samples, side, side, config_.width}), saved);
    return norm_.backward(d, {}, saved).reshaped({samples, of_.patches, vision_.vision_width});
  }

 private:
  ModelConfig config_;
  Idefics3Options vision_;
  Extents of_;
  LayerNorm norm_;
  Convolution visual_;
  Embedding table_;
};

/// Maps [B, visual + T, width] to logits [B * T, vocabulary] of the text's positions.
class Idefics3Head final : public Unit {
 public:
  Idefics3Head(const ModelConfig& c, Connector& connector, Device& device)
      : Unit("head", device),
        lender_(c.tied ? &connector : nullptr),
        visual_(Extents(c).visual * c.width),
        text_(c.context * c.width),
        shape_(*this),
        norm_(*this, "norm", c.width, epsilon_of(c)),
        logits_(c.tied ? Linear(*this, "logits", connector.share(), std::nullopt)
                       : Linear(*this, "logits", c.width, c.vocabulary, idefics3_normal,
                                std::nullopt)) {}

  const Unit* lender() const override { return lender_; }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    if (pass.keep) shape_.keep(saved, input.shape());
    const Tensor text =
        layer::take_part(device(), input, input.shape()[0], visual_, text_, MemoryKind::activation);
    return logits_.forward(norm_.forward(text, {}, pass, saved), pass, saved);
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Shape shape = shape_.take(saved);
    const Tensor d = norm_.backward(logits_.backward(grad_output, saved), {}, saved);
    const Tensor out = layer::workspace(*this, shape);
    device().kernels().fill({.out = out});
    layer::put_part(device(), d, out, shape[0], visual_);
    return out;
  }

 private:
  const Unit* lender_;
  std::int64_t visual_, text_;  // elements of a sample
  Slot<Shape> shape_;
  RmsNorm norm_;
  Linear logits_;
};

void check_vision(const ModelConfig& c) {
  const Idefics3Options& v = vision_of(c);
  check_sizes(c, {"image", "channels", "patch", "shuffle", "vision_layers", "vision_width",
                  "vision_heads", "vision_hidden"});
  if (v.vision_width % v.vision_heads != 0)
    throw Error("model.vision_heads = {} does not divide model.vision_width = {}; choose a divisor",
                v.vision_heads, v.vision_width);
  if (v.patch > c.image)
    throw Error("model.patch = {} is larger than model.image = {}; lower it", v.patch, c.image);
  const Extents of(c);
  if (of.side % v.shuffle != 0)
    throw Error(
        "model.shuffle = {} does not divide the {} patches of a side, which model.image = {} and "
        "model.patch = {} make; choose a divisor",
        v.shuffle, of.side, c.image, v.patch);
  if (of.patches > most_patches)
    throw Error(
        "model.patch = {} makes {} patches of an image; there may be {} or less, so raise it",
        v.patch, of.patches, most_patches);
}

/// Of the units "patches", "vision.*" and "connector".
constexpr naming::Rule vision_rules[] = {
    {"patches", "convolution.weight", "model.vision_model.embeddings.patch_embedding.weight",
     naming::Order::channels_first},
    {"patches", "convolution.bias", "model.vision_model.embeddings.patch_embedding.bias"},
    {"patches", "positions", "model.vision_model.embeddings.position_embedding.weight"},
    {"vision.*", "norm1.weight", "model.vision_model.encoder.layers.*.layer_norm1.weight"},
    {"vision.*", "norm1.bias", "model.vision_model.encoder.layers.*.layer_norm1.bias"},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.q_proj.weight", naming::Order::same, 0, 3},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.k_proj.weight", naming::Order::same, 1, 3},
    {"vision.*", "attention.qkv.weight",
     "model.vision_model.encoder.layers.*.self_attn.v_proj.weight", naming::Order::same, 2, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.q_proj.bias",
     naming::Order::same, 0, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.k_proj.bias",
     naming::Order::same, 1, 3},
    {"vision.*", "attention.qkv.bias", "model.vision_model.encoder.layers.*.self_attn.v_proj.bias",
     naming::Order::same, 2, 3},
    {"vision.*", "attention.out.weight",
     "model.vision_model.encoder.layers.*.self_attn.out_proj.weight"},
    {"vision.*", "attention.out.bias",
     "model.vision_model.encoder.layers.*.self_attn.out_proj.bias"},
    {"vision.*", "norm2.weight", "model.vision_model.encoder.layers.*.layer_norm2.weight"},
    {"vision.*", "norm2.bias", "model.vision_model.encoder.layers.*.layer_norm2.bias"},
    {"vision.*", "mlp.in.weight", "model.vision_model.encoder.layers.*.mlp.fc1.weight"},
    {"vision.*", "mlp.in.bias", "model.vision_model.encoder.layers.*.mlp.fc1.bias"},
    {"vision.*", "mlp.out.weight", "model.vision_model.encoder.layers.*.mlp.fc2.weight"},
    {"vision.*", "mlp.out.bias", "model.vision_model.encoder.layers.*.mlp.fc2.bias"},
    {"connector", "norm.weight", "model.vision_model.post_layernorm.weight"},
    {"connector", "norm.bias", "model.vision_model.post_layernorm.bias"},
    {"connector", "visual.weight", "model.connector.modality_projection.proj.weight",
     naming::Order::joined_columns},
};

/// As in Hugging Face's Idefics3ForConditionalGeneration. The decoder has Llama's names under a
/// prefix; its table of tokens belongs to the connector.
Names idefics3_names(const Model& model, const ModelConfig& config) {
  constexpr std::string_view llamas = "model.", decoders = "model.text_model.";
  std::vector<naming::Rule> rules = llama_rules(config);
  std::vector<std::string> renamed;
  renamed.reserve(rules.size());  // rules refer to the names
  for (naming::Rule& rule : rules) {
    if (rule.unit == "embedding") rule.unit = "connector";
    if (rule.name.starts_with(llamas))
      rule.name =
          renamed.emplace_back(fmt::format("{}{}", decoders, rule.name.substr(llamas.size())));
  }
  rules.insert(rules.end(), std::begin(vision_rules), std::end(vision_rules));
  Names names{.tensors = naming::by_rules(model, rules),
              .prefix = "model.",
              .ignored = {".rotary_emb.inv_freq", ".position_ids"}};
  if (model.units.back()->lender())
    names.ties = {
        {"lm_head.weight", naming::index_of(names, "model.text_model.embed_tokens.weight")}};
  return names;
}

void read_idefics3(const PublishedConfig& file) {
  ModelConfig& m = file.model();
  Idefics3Options& v = m.own<Idefics3Options>();
  const PublishedConfig text = file.object("text_config"), vision = file.object("vision_config");
  text.want("model_type", "llama");
  read_llama_blocks(text, text.empty() ? 1e-5 : 1e-6);
  file.take_flag("tie_word_embeddings", "tied", m.tied, false);
  if (const PublishedConfig::Json tied = text.value("tie_word_embeddings", m.tied); tied != m.tied)
    text.refuse("tie_word_embeddings", tied, "the file's own tie_word_embeddings says otherwise");
  file.take_size("scale_factor", "shuffle", v.shuffle, 2);
  vision.take_size("image_size", "image", m.image, 224);
  vision.take_size("num_channels", "channels", m.channels, 3);
  vision.take_size("patch_size", "patch", v.patch, 32);
  vision.take_size("num_hidden_layers", "vision_layers", v.vision_layers, 12);
  vision.take_size("num_attention_heads", "vision_heads", v.vision_heads, 16);
  vision.take_size("hidden_size", "vision_width", v.vision_width, 1152);
  vision.take_size("intermediate_size", "vision_hidden", v.vision_hidden, 3072);
  vision.want("layer_norm_eps", 1e-6);
  const PublishedConfig::Json activation = vision.value("hidden_act", "gelu_pytorch_tanh");
  if (activation_named(activation) != ModelActivation::gelu_tanh)
    vision.refuse("hidden_act", activation,
                  "vision of model.kind 'idefics3' computes with gelu_tanh alone");
}

/// HuggingFaceTB/SmolVLM-Instruct: SigLIP's vision transformer with 400M parameters, and SmolLM2
/// with 1.7B as the decoder, with three more tokens and a head of its own. Its context has 16384
/// positions; here the 81 visual tokens of one image and the text make 1024. Any other text is the
/// same model.
ModelConfig smolvlm() {
  return ModelConfig{.kind = "idefics3",
                     .layers = 24,
                     .heads = 32,
                     .width = 2048,
                     .context = 943,
                     .hidden = 8192,
                     .vocabulary = 49155,
                     .image = 384}
      .with(LlamaOptions{.kv_heads = 32, .rope_base = 273768})
      .with(Idefics3Options{.patch = 14,
                            .shuffle = 3,
                            .vision_layers = 27,
                            .vision_heads = 16,
                            .vision_width = 1152,
                            .vision_hidden = 4304});
}

std::vector<Preset> idefics3_presets() {
  return {{"smolvlm-2b", "Marafioti et al. 2025, SmolVLM-Instruct", smolvlm(), 2'246'272'880}};
}

}  // namespace

Fields fields_of(Idefics3Options& options) {
  return {
      {"patch", &options.patch, "idefics3: height and width of the patches of an image",
       Range::positive},
      {"shuffle", &options.shuffle,
       "idefics3: patches of shuffle x shuffle become one visual token; it must divide the patches "
       "of a side",
       Range::positive},
      {"vision_layers", &options.vision_layers,
       "idefics3: transformer blocks that see the image alone", Range::positive},
      {"vision_heads", &options.vision_heads,
       "idefics3: attention heads of these blocks; they must divide vision_width", Range::positive},
      {"vision_width", &options.vision_width, "idefics3: size of their hidden state",
       Range::positive},
      {"vision_hidden", &options.vision_hidden, "idefics3: hidden elements of their MLP",
       Range::positive}};
}

Model make_idefics3(const ModelConfig& config, Device& device) {
  check_llama(config);
  check_vision(config);
  const Idefics3Options& vision = vision_of(config);
  Model model;
  model.units.push_back(std::make_unique<Patches>(config, device));
  for (std::int64_t i = 0; i < vision.vision_layers; ++i)
    model.units.push_back(
        std::make_unique<PreNormBlock>(fmt::format("vision.{}", i),
                                       PreNormOptions{.width = vision.vision_width,
                                                      .heads = vision.vision_heads,
                                                      .hidden = vision.vision_hidden,
                                                      .causal = false,
                                                      .epsilon = vision_epsilon,
                                                      .inner = idefics3_normal,
                                                      .branch = idefics3_normal},
                                       device));
  auto connector = std::make_unique<Connector>(config, device);
  auto head = std::make_unique<Idefics3Head>(config, *connector, device);
  const std::size_t middle = model.units.size();
  const auto table = config.tied ? connector->share() : nullptr;
  model.units.push_back(std::move(connector));
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.units.push_back(make_llama_block(fmt::format("block.{}", i), config, device));
  model.units.push_back(std::move(head));
  model.edges = {{"text", Edge::Kind::data, 0, middle}};
  if (table)
    model.edges.push_back(
        {"table", Edge::Kind::table, middle, model.units.size() - 1, table->parameter()});
  model.task = Task::caption_tokens;
  model.input = {Extents(config).pixels + config.context};
  model.terms = {{config.context, config.vocabulary}};
  return model;
}

ModelInfo idefics3_info() {
  return {.name = "idefics3",
          .summary =
              "vision transformer, connector and Llama's decoder "
              "over image and text, as SmolVLM",
          .make = make_idefics3,
          .attention = true,
          .keys = {"layers", "heads", "width", "kv_heads", "hidden", "rope_base", "rope_factor",
                   "vocabulary", "tied", "epsilon", "activation", "image", "channels", "patch",
                   "shuffle", "vision_layers", "vision_heads", "vision_width", "vision_hidden"},
          // Classes are those of synthetic captions.
          .sample_keys = {"context", "target_context", "classes"},
          .epsilon = 1e-5,
          .activation = ModelActivation::silu,
          .complete = complete_llama,
          .options = Idefics3Options{},
          .largest = {{"patch", 1 << 10},
                      {"shuffle", 1 << 6},
                      {"vision_layers", 1 << 10},
                      {"vision_heads", 1 << 16},
                      {"vision_width", 1 << 16},
                      {"vision_hidden", 1 << 18}},
          .presets = idefics3_presets,
          .names = idefics3_names,
          .model_type = "idefics3",
          .read = read_idefics3};
}

}  // namespace ringside
