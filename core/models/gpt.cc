#include "core/models/gpt.h"

#include <cmath>

#include "core/models/decoder.h"
#include "core/models/model_defaults.h"
#include "core/models/pre_norm_block.h"

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

}  // namespace

Model make_gpt(const ModelConfig& config, Device& device) {
  check_transformer(config);
  auto embedding = std::make_unique<DecoderEmbedding>(config, rows_of_positions(config),
                                                      config.dropout, gpt_normal, device);
  return make_decoder<GptBlock, LayerNorm>(config, std::move(embedding), gpt_normal, device);
}

}  // namespace ringside
