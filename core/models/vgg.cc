#include "core/models/vgg.h"

#include <array>

#include "core/base/error.h"
#include "core/models/image_input.h"
#include "core/nn/convolution.h"
#include "core/nn/dropout.h"
#include "core/nn/layers.h"
#include "core/nn/pooling.h"

namespace ringside {
namespace {

/// Convolutions with relu, then a max pool that halves height and width.
class Stage final : public Unit {
 public:
  /// `place` is the index of the stage's first convolution in torchvision's list of layers, which
  /// includes relus and pools.
  Stage(std::int64_t index, const ModelConfig& c, std::int64_t place, std::int64_t in,
        std::int64_t out, int convolutions, Device& device)
      : Unit(fmt::format("stage.{}", index), device),
        config_(c),
        first_(index == 0),
        pool_(*this, Kernel2d{2, 2, 0}) {
    for (int i = 0; i < convolutions; ++i)
      convolutions_.emplace_back(*this, fmt::format("features.{}", place + 2 * i),
                                 i == 0 ? in : out, out, Kernel2d{3, 1, 1},
                                 Convolution::After::bias_and_relu);
  }

  Tensor forward(const Tensor& input, const Pass& pass) override {
    Tensor x = first_ ? image_input(*this, config_, input) : input;
    for (Convolution& convolution : convolutions_) x = convolution.forward(x, pass);
    return pool_.forward(x, pass);
  }
  Tensor backward(const Tensor& grad_output) override {
    Tensor d = pool_.backward(grad_output);
    for (std::size_t i = convolutions_.size(); i-- > 0;)
      d = convolutions_[i].backward(d, /*wanted=*/i > 0 || !first_);
    return d;
  }

 private:
  ModelConfig config_;
  bool first_;  // whether this is the first stage, whose input needs no gradient
  std::vector<Convolution> convolutions_;
  MaxPool pool_;
};

/// Maps [B, ...] to [B, out].
class Dense final : public Unit {
 public:
  Dense(const std::string& name, std::int64_t in, std::int64_t out, Activation activation,
        double dropout, Device& device)
      : Unit(name, device),
        linear_(*this, name, in, out, {Init::Kind::normal, 0.01f}, layer::zeros, activation),
        dropout_(*this, "dropout", dropout) {}

  Tensor forward(const Tensor& input, const Pass& pass) override {
    shape_ = input.shape();
    return dropout_.forward(linear_.forward(input, pass), shape_[0], pass);
  }
  Tensor backward(const Tensor& grad_output) override {
    return linear_.backward(dropout_.backward(grad_output)).reshaped(shape_);
  }

 private:
  Shape shape_;
  Linear linear_;
  DropoutLayer dropout_;
};

constexpr std::int64_t stages = 5, smallest = std::int64_t{1} << stages;

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

}  // namespace

Model make_vgg(const ModelConfig& config, Device& device) {
  check_images(config);
  check_dropout(config);
  if (config.image % smallest != 0)
    throw Error("model.image = {}: VGG halves the image's side {} times; choose a multiple of {}",
                config.image, stages, smallest);
  Model model;
  std::int64_t in = config.channels, place = 0, index = 0;
  for (const int convolutions : convolutions_of(config)) {
    const std::int64_t out = config.filters << std::min<std::int64_t>(index, 3);
    model.units.push_back(
        std::make_unique<Stage>(index, config, place, in, out, convolutions, device));
    in = out;
    place += 2 * convolutions + 1;
    ++index;
  }
  const std::int64_t side = config.image / smallest;
  const std::int64_t hidden = config.filters * (config.stem == StemShape::imagenet ? 64 : 8);
  const auto dense = [&](const char* name, std::int64_t from, std::int64_t to, bool last) {
    model.units.push_back(std::make_unique<Dense>(name, from, to,
                                                  last ? Activation::none : Activation::relu,
                                                  last ? 0 : config.dropout, device));
  };
  dense("classifier.0", side * side * in, hidden, false);
  dense("classifier.3", hidden, hidden, false);
  dense("classifier.6", hidden, config.classes, true);
  model.task = Task::image_class;
  model.input = {config.image, config.image, config.channels};
  model.terms = {{1, config.classes}};
  return model;
}

}  // namespace ringside
