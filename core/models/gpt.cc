#include "core/models/gpt.h"

#include <cmath>

#include "core/models/decoder.h"
#include "core/models/model_defaults.h"
#include "core/models/pre_norm_block.h"
#include "core/models/published_config.h"

namespace ringside {
namespace {

constexpr float gpt_deviation = 0.02f;
constexpr Init gpt_normal{Init::Kind::normal, gpt_deviation};

/// Initial weights that project into the residual stream are divided by the square root of the
/// number of such projections (Radford et al. 2019).
class GptBlock final : public PreNormBlock {
 public:
  GptBlock(std::string name, const ModelConfig& c, Device& device)
      : PreNormBlock(std::move(name),
                     {.width = c.width,
                      .heads = c.heads,
                      .hidden = 4 * c.width,
                      .activation = activation_of(c),
                      .epsilon = epsilon_of(c),
                      .dropout = c.dropout,
                      .inner = gpt_normal,
                      .branch = branch(c)},
                     device) {}

 private:
  static Init branch(const ModelConfig& c) {
    const double branches = 2.0 * static_cast<double>(c.layers);
    return {Init::Kind::normal, static_cast<float>(gpt_deviation / std::sqrt(branches))};
  }
};

constexpr naming::Rule gpt_rules[] = {
    {"embedding", "table.tokens", "transformer.wte.weight", naming::Order::tokens},
    {"embedding", "table.positions", "transformer.wpe.weight"},
    {"block.*", "norm1.weight", "transformer.h.*.ln_1.weight"},
    {"block.*", "norm1.bias", "transformer.h.*.ln_1.bias"},
    {"block.*", "attention.qkv.weight", "transformer.h.*.attn.c_attn.weight",
     naming::Order::transposed},
    {"block.*", "attention.qkv.bias", "transformer.h.*.attn.c_attn.bias"},
    {"block.*", "attention.out.weight", "transformer.h.*.attn.c_proj.weight",
     naming::Order::transposed},
    {"block.*", "attention.out.bias", "transformer.h.*.attn.c_proj.bias"},
    {"block.*", "norm2.weight", "transformer.h.*.ln_2.weight"},
    {"block.*", "norm2.bias", "transformer.h.*.ln_2.bias"},
    {"block.*", "mlp.in.weight", "transformer.h.*.mlp.c_fc.weight", naming::Order::transposed},
    {"block.*", "mlp.in.bias", "transformer.h.*.mlp.c_fc.bias"},
    {"block.*", "mlp.out.weight", "transformer.h.*.mlp.c_proj.weight", naming::Order::transposed},
    {"block.*", "mlp.out.bias", "transformer.h.*.mlp.c_proj.bias"},
    {"head", "norm.weight", "transformer.ln_f.weight"},
    {"head", "norm.bias", "transformer.ln_f.bias"},
    {"head", "logits.weight", "lm_head.weight", naming::Order::tokens},
};

/// As in Hugging Face's GPT2LMHeadModel.
Names gpt_names(const Model& model) {
  Names names{.tensors = naming::by_rules(model, gpt_rules),
              .prefix = "transformer.",
              .ignored = {".attn.bias", ".attn.masked_bias"}};
  if (model.units.back()->lender())
    names.ties = {{"lm_head.weight", naming::index_of(names, "transformer.wte.weight")}};
  return names;
}

void read_gpt2(const PublishedConfig& file) {
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

std::vector<Preset> gpt_presets() {
  const auto gpt = [](std::int64_t layers, std::int64_t heads, std::int64_t width,
                      std::int64_t context) {
    return ModelConfig{.kind = "gpt",
                       .layers = layers,
                       .heads = heads,
                       .width = width,
                       .context = context,
                       .positions = context,
                       .vocabulary = 50257,
                       .tied = true};
  };
  constexpr std::string_view radford = "Radford et al. 2019";
  return {
      {"gpt2", radford, gpt(12, 12, 768, 1024), 124'439'808},
      {"gpt2-medium", radford, gpt(24, 16, 1024, 1024), 354'823'168},
      {"gpt2-large", radford, gpt(36, 20, 1280, 1024), 774'030'080},
      {"gpt2-xl", radford, gpt(48, 25, 1600, 1024), 1'557'611'200},
      {"gpt-2b", "Ren et al. 2021 (ZeRO-Offload)", gpt(40, 16, 2048, 1024), 2'119'358'464},
      {"gpt-8b", "Shoeybi et al. 2019 (Megatron-LM)", gpt(72, 32, 3072, 1024), 8'314'143'744},
      // The paper prints a width of 5140, but its 40 heads of 128 make 5120.
      {"gpt3-13b", "Brown et al. 2020", gpt(40, 40, 5120, 2048), 12'853'386'240},
      {"gpt3-175b", "Brown et al. 2020", gpt(96, 96, 12288, 2048), 174'604'259'328},
  };
}

}  // namespace

Model make_gpt(const ModelConfig& config, Device& device) {
  check_transformer(config);
  auto embedding = std::make_unique<DecoderEmbedding>(config, rows_of_positions(config),
                                                      config.dropout, gpt_normal, device);
  return make_decoder<GptBlock, LayerNorm>(config, std::move(embedding), gpt_normal, device);
}

ModelInfo gpt_info() {
  return {.name = "gpt",
          .summary = "decoder-only transformer; each block is one unit",
          .make = make_gpt,
          .attention = true,
          .keys = {"layers", "heads", "width", "positions", "vocabulary", "tied", "epsilon",
                   "activation"},
          .sample_keys = {"context", "target_context"},
          .epsilon = 1e-5,
          .activation = ModelActivation::gelu_tanh,
          .complete = [](ModelConfig& c) { c.positions = rows_of_positions(c); },
          .presets = gpt_presets,
          .names = [](const Model& model, const ModelConfig&) { return gpt_names(model); },
          .model_type = "gpt2",
          .read = read_gpt2};
}

}  // namespace ringside
