#include "core/models/idefics3.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/models/llama.h"
#include "core/models/model_defaults.h"
#include "core/models/pre_norm_block.h"
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

/// What follows from the sizes of images, patches and visual tokens.
struct Extents {
  explicit Extents(const ModelConfig& c)
      : pixels(c.image * c.image * c.channels),
        side((c.image - c.patch) / c.patch + 1),
        patches(side * side),
        visual(patches / (c.shuffle * c.shuffle)) {}

  std::int64_t pixels;   // values of an image
  std::int64_t side;     // patches in a row of an image
  std::int64_t patches;  // of an image
  std::int64_t visual;   // tokens of an image
};

/// The text of a micro-batch. The first unit gets it together with the images and hands it over;
/// the connector takes it out when it needs it for the last time.
struct Caption {
  Tensor tokens{};  // int32 [B, T]
};

/// Maps int32 [B, pixels + T] (core/data/dataset.h, Task::caption_tokens) to [B, patches, width].
class Patches final : public Unit {
 public:
  Patches(const ModelConfig& c, std::shared_ptr<Caption> caption, Device& device)
      : Unit("patches", device),
        config_(c),
        of_(c),
        caption_(std::move(caption)),
        convolution_(*this, "convolution", c.channels, c.vision_width,
                     Kernel2d{.size = c.patch, .stride = c.patch, .padding = 0},
                     Convolution::After::bias, idefics3_normal),
        positions_(*this, "positions", of_.patches, c.vision_width, idefics3_normal) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const Shape& in = input.shape();
    if (in.rank() != 2 || in[1] != of_.pixels + config_.context)
      throw Error("unit {}: input {} is not [samples, n] with n = {} pixels plus {} tokens", name(),
                  in.text(), of_.pixels, config_.context);
    // When this forward is repeated, the connector still has the text, or needs it no more.
    if (!pass.again)
      caption_->tokens =
          layer::take_part(device(), input, in[0], of_.pixels, config_.context, MemoryKind::data);
    const Tensor x = convolution_.forward(images(input), pass);
    positions_.forward(x);
    return x.reshaped({in[0], of_.patches, config_.vision_width});
  }

  Tensor backward(const Tensor& grad_output) override {
    positions_.backward(grad_output);
    convolution_.backward(
        grad_output.reshaped({grad_output.shape()[0], of_.side, of_.side, config_.vision_width}),
        /*wanted=*/false);
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
  Extents of_;
  std::shared_ptr<Caption> caption_;
  Convolution convolution_;
  PositionTable positions_;
};

/// Maps [B, patches, vision width] to [B, visual + T, width]: visual tokens, then those of the
/// text.
class Connector final : public Unit {
 public:
  Connector(const ModelConfig& c, std::shared_ptr<Caption> caption, Device& device)
      : Unit("connector", device),
        config_(c),
        of_(c),
        caption_(std::move(caption)),
        norm_(*this, "norm", c.vision_width, vision_epsilon),
        // A pixel shuffle and a linear layer are a convolution without overlap: row k of the
        // layer's weight is kernel k, whose elements are in the same order.
        visual_(*this, "visual", c.vision_width, c.width,
                Kernel2d{.size = c.shuffle, .stride = c.shuffle, .padding = 0},
                Convolution::After::nothing, idefics3_normal),
        table_(*this, "table", c.vocabulary, /*positions=*/0, c.width, idefics3_normal) {}

  std::shared_ptr<TiedTable> share() { return table_.share(); }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    const std::int64_t samples = input.shape()[0], context = config_.context;
    const Tensor x = norm_.forward(input, {}, pass);
    const Tensor visual =
        visual_.forward(x.reshaped({samples, of_.side, of_.side, config_.vision_width}), pass);
    // In training, a forward that keeps nothing will be repeated, with the same text.
    const bool repeated = pass.training && !pass.keep;
    const Tensor tokens = repeated ? caption_->tokens : std::exchange(caption_->tokens, {});
    const Tensor text = table_.forward(tokens, pass);
    const Tensor y = layer::activation(*this, {samples, of_.visual + context, config_.width});
    layer::put_part(device(), visual, y, samples, 0);
    layer::put_part(device(), text, y, samples, of_.visual * config_.width);
    return y;
  }

  Tensor backward(const Tensor& grad_output) override {
    const std::int64_t samples = grad_output.shape()[0];
    const std::int64_t visual = of_.visual * config_.width, text = config_.context * config_.width;
    const auto part = [&](std::int64_t begin, std::int64_t count) {
      return layer::take_part(device(), grad_output, samples, begin, count, MemoryKind::workspace);
    };
    table_.backward(part(visual, text));
    const std::int64_t side = of_.side / config_.shuffle;
    const Tensor d =
        visual_.backward(part(0, visual).reshaped({samples, side, side, config_.width}));
    return norm_.backward(d).reshaped({samples, of_.patches, config_.vision_width});
  }

 private:
  ModelConfig config_;
  Extents of_;
  std::shared_ptr<Caption> caption_;
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
        norm_(*this, "norm", c.width, epsilon_of(c)),
        logits_(c.tied ? Linear(*this, "logits", connector.share(), std::nullopt)
                       : Linear(*this, "logits", c.width, c.vocabulary, idefics3_normal,
                                std::nullopt)) {}

  const Unit* lender() const override { return lender_; }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    shape_ = input.shape();
    const Tensor text =
        layer::take_part(device(), input, shape_[0], visual_, text_, MemoryKind::activation);
    return logits_.forward(norm_.forward(text, {}, pass), pass);
  }

  Tensor backward(const Tensor& grad_output) override {
    const Tensor d = norm_.backward(logits_.backward(grad_output));
    const Tensor out = layer::workspace(*this, shape_);
    device().kernels().fill({.out = out});
    layer::put_part(device(), d, out, shape_[0], visual_);
    return out;
  }

 private:
  const Unit* lender_;
  std::int64_t visual_, text_;  // elements of a sample
  Shape shape_;
  RmsNorm norm_;
  Linear logits_;
};

void check_vision(const ModelConfig& c) {
  check_sizes(c, {"image", "channels", "patch", "shuffle", "vision_layers", "vision_width",
                  "vision_heads", "vision_hidden"});
  if (c.vision_width % c.vision_heads != 0)
    throw Error("model.vision_heads = {} does not divide model.vision_width = {}; choose a divisor",
                c.vision_heads, c.vision_width);
  if (c.patch > c.image)
    throw Error("model.patch = {} is larger than model.image = {}; lower it", c.patch, c.image);
  const Extents of(c);
  if (of.side % c.shuffle != 0)
    throw Error(
        "model.shuffle = {} does not divide the {} patches of a side, which model.image = {} and "
        "model.patch = {} make; choose a divisor",
        c.shuffle, of.side, c.image, c.patch);
  if (of.patches > most_patches)
    throw Error(
        "model.patch = {} makes {} patches of an image; there may be {} or less, so raise it",
        c.patch, of.patches, most_patches);
}

}  // namespace

Model make_idefics3(const ModelConfig& config, Device& device) {
  check_llama(config);
  check_vision(config);
  Model model;
  const auto caption = std::make_shared<Caption>();
  model.units.push_back(std::make_unique<Patches>(config, caption, device));
  for (std::int64_t i = 0; i < config.vision_layers; ++i)
    model.units.push_back(
        std::make_unique<PreNormBlock>(fmt::format("vision.{}", i),
                                       PreNormOptions{.width = config.vision_width,
                                                      .heads = config.vision_heads,
                                                      .hidden = config.vision_hidden,
                                                      .causal = false,
                                                      .epsilon = vision_epsilon,
                                                      .inner = idefics3_normal,
                                                      .branch = idefics3_normal},
                                       device));
  auto connector = std::make_unique<Connector>(config, caption, device);
  auto head = std::make_unique<Idefics3Head>(config, *connector, device);
  model.units.push_back(std::move(connector));
  for (std::int64_t i = 0; i < config.layers; ++i)
    model.units.push_back(make_llama_block(fmt::format("block.{}", i), config, device));
  model.units.push_back(std::move(head));
  model.task = Task::caption_tokens;
  model.input = {Extents(config).pixels + config.context};
  model.terms = {{config.context, config.vocabulary}};
  return model;
}

}  // namespace ringside
