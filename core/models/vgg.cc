#include "core/models/vgg.h"

#include <array>

#include "core/base/error.h"
#include "core/models/plain_units.h"
#include "core/nn/layer_tensors.h"

namespace ringside {
namespace {

constexpr std::int64_t stages = 5, vgg_smallest_image = std::int64_t{1} << stages;

/// Number of convolutions in each stage.
std::array<int, stages> convolutions_of(const ModelConfig& config) {
  switch (config.layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      throw Error("model.layers = {}: choose 11, 13, 16 or 19", config.layers);
  }
}

std::vector<Preset> vgg_presets() {
  const ModelConfig published{.kind = "vgg",
                              .layers = 16,
                              .dropout = 0.5,
                              .image = 224,
                              .classes = 1000,
                              .stem = StemShape::imagenet};
  const ModelConfig cifar{.kind = "vgg",
                          .layers = 16,
                          .dropout = 0.5,
                          .image = 32,
                          .classes = 10,
                          .stem = StemShape::cifar};
  return {{"vgg-16", "Simonyan and Zisserman 2015, as in torchvision", published, 138'357'544},
          {"vgg-16-cifar", "the same for CIFAR: classifier of width 512, 10 classes", cifar,
           15'245'130}};
}

}  // namespace

Model make_vgg(const ModelConfig& config, Device& device) {
  check_images(config);
  check_dropout(config);
  if (config.image % vgg_smallest_image != 0)
    throw Error("model.image = {}: VGG halves the image's side {} times; choose a multiple of {}",
                config.image, stages, vgg_smallest_image);
  Model model;
  // `place` counts in torchvision's list of layers, which includes relus and pools.
  std::int64_t in = config.channels, place = 0, index = 0;
  for (const int convolutions : convolutions_of(config)) {
    const std::int64_t out = config.filters << std::min<std::int64_t>(index, 3);
    std::vector<plain::Layer> layers;
    for (int i = 0; i < convolutions; ++i) {
      layers.push_back({fmt::format("features.{}", place), in, out, Kernel2d{3, 1, 1}});
      in = out;
      place += 2;  // over the relu
    }
    ++place;  // over the pool
    model.units.push_back(plain::make_stage(fmt::format("stage.{}", index), config, index == 0,
                                            layers, Window2d{2, 2, 0}, 0, device));
    ++index;
  }
  const std::int64_t side = config.image / vgg_smallest_image;
  const std::int64_t hidden = config.filters * (config.stem == StemShape::imagenet ? 64 : 8);
  const auto dense = [&](const char* name, std::int64_t from, std::int64_t to, bool last) {
    model.units.push_back(plain::make_dense({name,
                                             from,
                                             to,
                                             {Init::Kind::normal, 0.01f},
                                             layer::zeros,
                                             !last,
                                             last ? 0 : config.dropout},
                                            device));
  };
  dense("classifier.0", side * side * in, hidden, false);
  dense("classifier.3", hidden, hidden, false);
  dense("classifier.6", hidden, config.classes, true);
  model.task = Task::image_class;
  model.input = {config.image, config.image, config.channels};
  model.terms = {{1, config.classes}};
  return model;
}

ModelInfo vgg_info() {
  return {.name = "vgg",
          .summary = "plain convolutions on images; the layers up to each pool are one unit",
          .make = make_vgg,
          .keys = {"layers", "channels", "classes", "filters", "stem"},
          .presets = vgg_presets,
          .names = [](const Model& model, const ModelConfig& c) {
            return Names{.tensors =
                             naming::torchvision_layers(model, c.channels, "classifier.0.weight")};
          }};
}

}  // namespace ringside
