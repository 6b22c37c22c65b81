#include "core/models/llama.h"

#include <cmath>

#include "core/base/error.h"
#include "core/models/decoder.h"
#include "core/models/model_defaults.h"
#include "core/models/published_config.h"
#include "core/nn/attention.h"
#include "core/nn/decoder_layers.h"

namespace ringside {
namespace {

constexpr float llama_deviation = 0.02f;
constexpr Init llama_normal{Init::Kind::normal, llama_deviation};

const LlamaOptions& llama_options(const ModelConfig& c) { return c.own<LlamaOptions>(); }

/// x += attention(norm(x)); x += mlp(norm(x)).
class LlamaBlock final : public Unit {
 public:
  /// `c` is completed.
  LlamaBlock(std::string name, const ModelConfig& c, Device& device)
      : Unit(std::move(name), device),
        norm1_(*this, "norm1", c.width, epsilon_of(c)),
        attention_(
            *this, "attention",
            {.width = c.width,
             .heads = c.heads,
             .key_heads = llama_options(c).kv_heads,
             .bias = false,
             .rotary = RotaryPositions{llama_options(c).rope_base, llama_options(c).rope_factor},
             .qkv = llama_normal,
             .out = branch(c)}),
        norm2_(*this, "norm2", c.width, epsilon_of(c)),
        expand_(*this, "mlp.in", c.width, 2 * c.hidden, llama_normal, std::nullopt),
        gate_(*this, c.hidden),
        contract_(*this, "mlp.out", c.hidden, c.width, branch(c), std::nullopt) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    Tensor x = norm1_.forward(input, {}, pass, saved);
    const Tensor stream = attention_.forward(x, input.shape()[0], pass, saved,
                                             [this](Saved& own) { return norm1_.again(own); });
    x = norm2_.forward(stream, input, pass, saved);  // stream += input
    x = expand_.forward(x, pass, saved);
    x = gate_.forward(x, pass, saved);
    x = contract_.forward(x, pass, saved);
    device().kernels().add({.in = stream, .out = x});
    return x.reshaped(input.shape());
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    Tensor d = contract_.backward(grad_output, saved);
    d = gate_.backward(d, saved);
    d = expand_.backward(d, saved);
    // The gradient of the stream: the norms add to it, in place unless work was put off.
    Tensor stream = norm2_.backward(d, grad_output, saved);
    d = attention_.backward(stream, saved);
    stream = norm1_.backward(d, stream, saved);
    return stream.reshaped(grad_output.shape());
  }

 private:
  static Init branch(const ModelConfig& c) {
    const double branches = 2.0 * static_cast<double>(c.layers);
    return {Init::Kind::normal, static_cast<float>(llama_deviation / std::sqrt(branches))};
  }

  RmsNorm norm1_;
  SelfAttention attention_;
  RmsNorm norm2_;
  Linear expand_;
  SwiGlu gate_;
  Linear contract_;
};

/// Rotary positions: rope_theta and rope_scaling, or, since Transformers 5, rope_parameters with
/// both. Waves are stretched as core/device/ops/attention.h says at rotary_frequency().
void take_rotary(const PublishedConfig& file) {
  LlamaOptions& own = file.model().own<LlamaOptions>();
  const PublishedConfig newer = file.object("rope_parameters"), older = file.object("rope_scaling");
  const PublishedConfig& scaling = newer.empty() ? older : newer;
  (newer.empty() ? file : newer).take_number("rope_theta", "rope_base", own.rope_base, 10000);
  const std::string key = scaling.has("type") && !scaling.has("rope_type") ? "type" : "rope_type";
  const PublishedConfig::Json type = scaling.value(key, "default");
  if (type == "llama3") {
    scaling.take_number("factor", "rope_factor", own.rope_factor, 1);
    scaling.want("low_freq_factor", 1.0);
    scaling.want("high_freq_factor", 4.0);
    scaling.want("original_max_position_embeddings", 8192);
  } else if (type == "default") {
    own.rope_factor = 1;
    scaling.state(key, "rope_factor", type);
  } else {
    scaling.refuse(key, type, "rotary positions are stretched as in 'llama3' alone");
  }
}

void read_llama(const PublishedConfig& file) {
  read_llama_blocks(file, 1e-6);
  file.take_flag("tie_word_embeddings", "tied", file.model().tied, false);
}

/// As in Hugging Face's LlamaForCausalLM.
Names llama_names(const Model& model, const ModelConfig& config) {
  Names names{.tensors = naming::by_rules(model, llama_rules(config)),
              .prefix = "model.",
              .ignored = {".rotary_emb.inv_freq"}};
  if (model.units.back()->lender())
    names.ties = {{"lm_head.weight", naming::index_of(names, "model.embed_tokens.weight")}};
  return names;
}

ModelConfig llama2(std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                   std::int64_t width, std::int64_t hidden) {
  return ModelConfig{.kind = "llama",
                     .layers = layers,
                     .heads = heads,
                     .width = width,
                     .context = 4096,
                     .hidden = hidden,
                     .vocabulary = 32000}
      .with(LlamaOptions{.kv_heads = kv_heads});
}

ModelConfig llama3(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t hidden,
                   double rope_factor, bool tied) {
  ModelConfig config = llama2(layers, heads, 8, width, hidden);
  config.context = 8192;
  config.own<LlamaOptions>() = {.kv_heads = 8, .rope_base = 500000, .rope_factor = rope_factor};
  config.vocabulary = 128256;
  config.tied = tied;
  return config;
}

std::vector<Preset> llama_presets() {
  constexpr std::string_view touvron = "Touvron et al. 2023";
  constexpr std::string_view meta = "Meta 2024, trained as Llama 3.1";
  constexpr std::string_view grattafiori = "Grattafiori et al. 2024";
  return {
      {"llama2-7b", touvron, llama2(32, 32, 32, 4096, 11008), 6'738'415'616},
      {"llama2-13b", touvron, llama2(40, 40, 40, 5120, 13824), 13'015'864'320},
      {"llama2-70b", touvron, llama2(80, 64, 8, 8192, 28672), 68'976'648'192},
      {"llama3.2-1b", meta, llama3(16, 32, 2048, 8192, 32, true), 1'235'814'400},
      {"llama3.2-3b", meta, llama3(28, 24, 3072, 8192, 32, true), 3'212'749'824},
      {"llama3.1-8b", grattafiori, llama3(32, 32, 4096, 14336, 8, false), 8'030'261'248},
      {"llama3.1-70b", grattafiori, llama3(80, 64, 8192, 28672, 8, false), 70'553'706'496},
      {"llama3.1-405b", grattafiori, llama3(126, 128, 16384, 53248, 8, false), 405'853'388'800},
  };
}

}  // namespace

Fields fields_of(LlamaOptions& options) {
  return {
      {"kv_heads", &options.kv_heads,
       "llama, idefics3: heads of keys and values; they must divide heads; 0 means as many as "
       "heads",
       Range::not_negative},
      {"rope_base", &options.rope_base,
       "llama, idefics3: base of the rotary positions; 500000 in Llama 3", Range::positive},
      {"rope_factor", &options.rope_factor,
       "llama, idefics3: by how much long waves of the rotary positions are stretched; 8 in Llama "
       "3.1, 32 in Llama 3.2",
       Range::positive}};
}

void check_llama(const ModelConfig& c) {
  const auto& [kv_heads, rope_base, rope_factor] = llama_options(c);
  check_sizes(c, {});
  // A field that a Llama does not use may have any value that is not too large.
  ModelConfig used = c;
  used.dropout = 0;
  used.positions = 0;
  check_transformer(used);
  if (kv_heads < 0 || c.heads % llama_options(completed(c)).kv_heads != 0)
    throw Error("model.kv_heads = {} does not divide model.heads = {}; choose a divisor, or 0",
                kv_heads, c.heads);
  if (c.width / c.heads % 2 != 0)
    throw Error(
        "model.width / model.heads = {} is odd, but rotary positions turn pairs of elements; "
        "choose an even width for each head",
        c.width / c.heads);
  if (c.width / c.heads > 512)
    throw Error("model.width / model.heads = {} is too large; it has to be 512 or less",
                c.width / c.heads);
  if (c.hidden < 0)
    throw Error("model.hidden = {} is too small; it has to be 1 or more, or 0", c.hidden);
  check_activation(c);
  epsilon_of(c);  // refuses what is out of range
  if (!(rope_base >= 1) || !std::isfinite(rope_base))
    throw Error("model.rope_base = {} is out of range; it has to be 1 or more", rope_base);
  if (!(rope_factor >= 1) || !std::isfinite(rope_factor))
    throw Error("model.rope_factor = {} is out of range; it has to be 1 or more", rope_factor);
}

std::unique_ptr<Unit> make_llama_block(std::string name, const ModelConfig& config,
                                       Device& device) {
  return std::make_unique<LlamaBlock>(std::move(name), completed(config), device);
}

Model make_llama(const ModelConfig& config, Device& device) {
  check_llama(config);
  auto embedding = std::make_unique<DecoderEmbedding>(config, /*positions=*/0, /*dropout=*/0,
                                                      llama_normal, device);
  return make_decoder<LlamaBlock, RmsNorm>(completed(config), std::move(embedding), llama_normal,
                                           device);
}

void complete_llama(ModelConfig& c) {
  LlamaOptions& own = c.own<LlamaOptions>();
  if (own.kv_heads == 0) own.kv_heads = c.heads;
  if (c.hidden == 0) c.hidden = (c.width * 8 / 3 + 255) / 256 * 256;
}

/// The heads of queries, keys and values share one parameter; in files each kind has its own.
std::vector<naming::Rule> llama_rules(const ModelConfig& config) {
  const std::int64_t heads = config.heads;
  const std::int64_t stated = llama_options(config).kv_heads;
  const std::int64_t kv_heads = stated == 0 ? heads : stated;
  const std::int64_t all = heads + 2 * kv_heads;
  return {
      {"embedding", "table.tokens", "model.embed_tokens.weight", naming::Order::tokens},
      {"block.*", "norm1.weight", "model.layers.*.input_layernorm.weight"},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.q_proj.weight",
       naming::Order::same, 0, all, heads},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.k_proj.weight",
       naming::Order::same, heads, all, kv_heads},
      {"block.*", "attention.qkv.weight", "model.layers.*.self_attn.v_proj.weight",
       naming::Order::same, heads + kv_heads, all, kv_heads},
      {"block.*", "attention.out.weight", "model.layers.*.self_attn.o_proj.weight"},
      {"block.*", "norm2.weight", "model.layers.*.post_attention_layernorm.weight"},
      {"block.*", "mlp.in.weight", "model.layers.*.mlp.gate_proj.weight", naming::Order::same, 0,
       2},
      {"block.*", "mlp.in.weight", "model.layers.*.mlp.up_proj.weight", naming::Order::same, 1, 2},
      {"block.*", "mlp.out.weight", "model.layers.*.mlp.down_proj.weight"},
      {"head", "norm.weight", "model.norm.weight"},
      {"head", "logits.weight", "lm_head.weight", naming::Order::tokens},
  };
}

void read_llama_blocks(const PublishedConfig& file, double epsilon) {
  ModelConfig& m = file.model();
  file.take_size("num_hidden_layers", "layers", m.layers, 32);
  file.take_size("num_attention_heads", "heads", m.heads, 32);
  file.take_size("hidden_size", "width", m.width, 4096);
  file.take_size("num_key_value_heads", "kv_heads", m.own<LlamaOptions>().kv_heads, m.heads);
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

ModelInfo llama_info() {
  return {.name = "llama",
          .summary = "decoder with RMS norms, rotary positions, SwiGLU and shared heads of keys",
          .make = make_llama,
          .attention = true,
          .keys = {"layers", "heads", "width", "kv_heads", "hidden", "rope_base", "rope_factor",
                   "vocabulary", "tied", "epsilon", "activation"},
          .sample_keys = {"context", "target_context"},
          .epsilon = 1e-5,
          .activation = ModelActivation::silu,
          .complete = complete_llama,
          .options = LlamaOptions{},
          .largest = {{"kv_heads", 1 << 20}},
          .presets = llama_presets,
          .names = llama_names,
          .model_type = "llama",
          .read = read_llama};
}

}  // namespace ringside
