#include "core/models/alexnet.h"

#include "core/base/error.h"
#include "core/models/plain_units.h"
#include "core/nn/layers.h"

namespace ringside {
namespace {

constexpr std::int64_t alexnet_smallest_image =
    63;  // with it one position is left behind the last pool
constexpr Window2d pool{3, 2, 0};

/// A convolution with PyTorch's own initial values, which depend on the inputs of a kernel.
plain::Layer layer(int place, std::int64_t in, std::int64_t out, Kernel2d kernel) {
  return {fmt::format("features.{}", place), in, out, kernel,
          uniform_for(in * kernel.size.rows * kernel.size.columns)};
}

/// The side of an image behind the first convolution and the three pools; the other convolutions
/// keep it.
std::int64_t last_side(std::int64_t image) {
  std::int64_t side = (image + 2 * 2 - 11) / 4 + 1;
  for (int i = 0; i < 3; ++i) side = (side - pool.size) / pool.stride + 1;
  return side;
}

std::vector<Preset> alexnet_presets() {
  return {
      {"alexnet", "Krizhevsky 2014, as in torchvision",
       ModelConfig{.kind = "alexnet", .dropout = 0.5, .image = 224, .classes = 1000, .filters = 64},
       61'100'840}};
}

}  // namespace

Model make_alexnet(const ModelConfig& config, Device& device) {
  check_images(config);
  check_dropout(config);
  if (config.image < alexnet_smallest_image)
    throw Error("model.image = {}: nothing would be left behind AlexNet's pools; choose {} or more",
                config.image, alexnet_smallest_image);
  Model model;
  const std::int64_t filters = config.filters;
  const auto stage = [&](const std::vector<plain::Layer>& layers, double dropout) {
    const std::size_t index = model.units.size();
    model.units.push_back(plain::make_stage(fmt::format("stage.{}", index), config, index == 0,
                                            layers, pool, dropout, device));
  };
  stage({layer(0, config.channels, filters, Kernel2d{11, 4, 2})}, 0);
  stage({layer(3, filters, 3 * filters, Kernel2d{5, 1, 2})}, 0);
  stage({layer(6, 3 * filters, 6 * filters, Kernel2d{3, 1, 1}),
         layer(8, 6 * filters, 4 * filters, Kernel2d{3, 1, 1}),
         layer(10, 4 * filters, 4 * filters, Kernel2d{3, 1, 1})},
        config.dropout);

  const std::int64_t side = last_side(config.image), hidden = 64 * filters;
  const auto dense = [&](const char* name, std::int64_t in, std::int64_t out, bool relu,
                         double dropout) {
    model.units.push_back(plain::make_dense(
        {name, in, out, uniform_for(in), uniform_for(in), relu, dropout}, device));
  };
  dense("classifier.1", side * side * 4 * filters, hidden, true, config.dropout);
  dense("classifier.4", hidden, hidden, true, 0);
  dense("classifier.6", hidden, config.classes, false, 0);
  model.task = Task::image_class;
  model.input = {config.image, config.image, config.channels};
  model.terms = {{1, config.classes}};
  return model;
}

ModelInfo alexnet_info() {
  return {.name = "alexnet",
          .summary = "AlexNet on images; the layers up to each pool are one unit",
          .make = make_alexnet,
          .keys = {"channels", "classes", "filters"},
          .presets = alexnet_presets,
          .names = [](const Model& model, const ModelConfig& c) {
            return Names{.tensors =
                             naming::torchvision_layers(model, c.channels, "classifier.1.weight")};
          }};
}

}  // namespace ringside
