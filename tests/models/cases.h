// A tiny model of every kind, with inputs and targets.
#pragma once

#include <string>
#include <vector>

#include "core/models/idefics3.h"
#include "core/models/llama.h"
#include "core/models/models.h"
#include "core/models/resnet.h"
#include "core/models/t5.h"
#include "tests/models/bound_model.h"

namespace ringside {

struct Case {
  std::string name;
  ModelConfig config;
};

inline std::vector<Case> cases() {
  const ModelConfig tokens{.layers = 2, .heads = 2, .width = 8, .context = 5, .vocabulary = 11};
  const auto of = [&](std::string kind, const auto& change) {
    ModelConfig config = tokens;
    config.kind = std::move(kind);
    change(config);
    return config;
  };
  const auto images = [](std::string kind, std::int64_t layers, StemShape stem,
                         std::int64_t image) {
    return ModelConfig{.kind = std::move(kind),
                       .layers = layers,
                       .dropout = 0.3,
                       .image = image,
                       .channels = 2,
                       .classes = 5,
                       .filters = 4,
                       .stem = stem};
  };
  const auto idefics3 = [&](bool tied) {
    return of("idefics3", [&](ModelConfig& c) {
      c.own<LlamaOptions>().kv_heads = tied ? 0 : 1;
      c.hidden = 6;
      c.tied = tied;
      c.image = 9;  // 4 x 4 patches, and a row and a column of pixels that fill none
      c.channels = 2;
      c.own<Idefics3Options>() = {.patch = 2,
                                  .vision_layers = 1,
                                  .vision_heads = 2,
                                  .vision_width = 6,
                                  .vision_hidden = 10};
    });
  };
  return {
      {"gpt", of("gpt", [](ModelConfig&) {})},
      {"mlp", of("mlp", [](ModelConfig&) {})},
      {"tied_gpt_with_dropout", of("gpt",
                                   [](ModelConfig& c) {
                                     c.tied = true;
                                     c.dropout = 0.3;
                                     c.positions = 7;
                                     c.epsilon = 1e-2;
                                     c.activation = ModelActivation::gelu;
                                   })},
      {"llama", of("llama",
                   [](ModelConfig& c) {
                     c.heads = 4;
                     c.own<LlamaOptions>() = {.kv_heads = 2, .rope_factor = 8};
                     c.hidden = 12;
                   })},
      {"tied_llama", of("llama",
                        [](ModelConfig& c) {
                          c.tied = true;
                          c.epsilon = 1e-2;
                        })},
      {"bert", of("bert",
                  [](ModelConfig& c) {
                    c.dropout = 0.3;
                    c.masked = 2;
                    c.segments = 3;
                    c.activation = ModelActivation::tanh;
                  })},
      {"idefics3", idefics3(false)},
      {"tied_idefics3", idefics3(true)},
      {"t5", of("t5",
                [](ModelConfig& c) {
                  c.dropout = 0.3;
                  c.target_context = 4;
                  c.own<T5Options>() = {
                      .head_width = 3, .relative_buckets = 8, .relative_distance = 5};
                  c.hidden = 12;
                  c.activation = ModelActivation::gelu_tanh;
                })},
      {"resnet_18_of_large_images", images("resnet", 18, StemShape::imagenet, 30)},
      {"resnet_14_of_small_images", images("resnet", 14, StemShape::cifar, 10)},
      {"resnext_14_of_small_images",
       [&] {
         ModelConfig config = images("resnet", 14, StemShape::cifar, 10);
         // 3 channels where the stem has 4
         config.own<ResnetOptions>() = {.groups = 2, .group_width = 48};
         return config;
       }()},
      {"vgg_11", images("vgg", 11, StemShape::cifar, 32)},
      {"alexnet",
       [&] {
         ModelConfig config = images("alexnet", 8, StemShape::imagenet, 95);
         config.filters = 1;
         return config;
       }()},
      {"inception_24",
       [&] {
         ModelConfig config = images("inception", 24, StemShape::imagenet, 107);
         config.channels = 1;
         return config;
       }()},
  };
}

/// Whether the unit uses up what the forward of the first unit hands over: BERT's head the masked
/// positions, the connector of a vision-language model the text.
inline bool is_handed_data(const Unit& unit) { return unit.lender() || unit.name() == "connector"; }

inline Tensor input_of(const ModelConfig& config, const Model& model, Device& device,
                       std::int64_t samples, std::uint64_t seed) {
  if (model.task == Task::masked_tokens) {
    const std::int64_t T = config.context, P = config.masked, N = 2 * T + P;
    const Tensor out = device.tensor({samples, N}, MemoryKind::data, DType::i32);
    const auto part = [&](std::int64_t begin, std::int64_t count, std::int64_t below) {
      const Tensor values =
          tokens_of(device, samples, count, below, seed + static_cast<std::uint64_t>(begin));
      for (std::int64_t b = 0; b < samples; ++b)
        device.kernels().copy(
            {.in = values.range(b * count, count), .out = out.range(b * N + begin, count)});
    };
    part(0, T, config.vocabulary);
    part(T, T, config.segments);
    part(2 * T, P, T);
    return out;
  }
  if (model.task == Task::caption_tokens) {
    const std::int64_t N = model.input.count(), pixels = N - config.context;
    const Tensor out = device.tensor({samples, N}, MemoryKind::data, DType::i32);
    const Tensor tokens = tokens_of(device, samples, config.context, config.vocabulary, seed);
    for (std::int64_t b = 0; b < samples; ++b) {
      const auto image = normals(pixels, seed + 1 + static_cast<std::uint64_t>(b));
      device.write(out.range(b * N, pixels), std::as_bytes(std::span(image)));
      device.kernels().copy({.in = tokens.range(b * config.context, config.context),
                             .out = out.range(b * N + pixels, config.context)});
    }
    return out;
  }
  if (model.task != Task::image_class)
    return tokens_of(device, samples, model.input.count(), config.vocabulary, seed);
  const Shape images{samples, config.image, config.image, config.channels};
  const Tensor out = device.tensor(images, MemoryKind::data);
  const auto values = normals(images.count(), seed);
  device.write(out, std::as_bytes(std::span(values)));
  return out;
}

/// Returns the summed loss of all terms, and overwrites `logits` with its gradient.
inline double loss_of(const Model& model, Device& device, const Tensor& logits,
                      std::int64_t samples, std::uint64_t seed) {
  double sum = 0;
  std::int64_t begin = 0;
  for (const LossTerm& term : model.terms) {
    const std::int64_t rows = samples * term.rows;
    const Tensor part = logits.view(begin, {rows, term.classes});
    begin += part.count();
    const Tensor losses = device.tensor({rows}, MemoryKind::workspace);
    device.kernels().cross_entropy(
        {.logits = part,
         .targets = tokens_of(device, rows, 1, term.classes, seed + 1000).reshaped({rows}),
         .scale = 1,
         .losses = losses,
         .dlogits = part});
    for (float loss : losses.span<float>()) sum += loss;
  }
  EXPECT_EQ(begin, logits.count());
  return sum;
}

inline constexpr std::uint64_t seed_of_passes = 5;
/// A pass as in training, and the same pass without keeping what backward needs.
inline constexpr Pass keeping{.step = 2, .first_sample = 7, .seed = seed_of_passes};
inline constexpr Pass looking{.step = 2, .keep = false, .first_sample = 7, .seed = seed_of_passes};

}  // namespace ringside
