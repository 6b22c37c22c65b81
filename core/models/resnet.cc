#include "core/models/resnet.h"

#include <array>

#include "core/base/error.h"
#include "core/models/image_input.h"
#include "core/nn/conv_norm.h"
#include "core/nn/layers.h"
#include "core/nn/pooling.h"

namespace ringside {
namespace {

/// Maps fp32 [B, image, image, channels] to [B, P, P, filters].
class ResnetStem final : public Unit {
 public:
  ResnetStem(const ModelConfig& c, Device& device)
      : Unit("stem", device),
        config_(c),
        first_(*this, "conv1", "bn1", c.channels, c.filters,
               c.stem == StemShape::cifar ? Kernel2d{3, 1, 1} : Kernel2d{7, 2, 3}, /*relu=*/true) {
    if (c.stem == StemShape::imagenet) pool_.emplace(*this, Window2d{3, 2, 1});
  }

  Tensor forward(const Tensor& images, const Pass& pass, Saved& saved) override {
    const Tensor x = first_.forward(image_input(*this, config_, images), {}, pass, saved);
    return pool_ ? pool_->forward(x, pass, saved) : x;
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor d = pool_ ? pool_->backward(grad_output, saved) : grad_output;
    first_.backward(d, saved, /*wanted=*/false);
    return {};
  }

 private:
  ModelConfig config_;
  ConvNorm first_;
  std::optional<MaxPool> pool_;
};

/// One convolution of a block's path.
struct PathStep {
  std::int64_t size, stride, out, groups = 1;
};

std::vector<PathStep> bottleneck(std::int64_t width, std::int64_t groups, std::int64_t stride,
                                 std::int64_t out) {
  return {{1, 1, width}, {3, stride, width, groups}, {1, 1, out}};
}

/// relu(path(x) + x). If the path changes the extents, the x that is added goes through a 1x1
/// convolution and a batch norm first.
class ResnetBlock final : public Unit {
 public:
  ResnetBlock(std::string name, Device& device, std::int64_t in, std::int64_t stride,
              const std::vector<PathStep>& path)
      : Unit(std::move(name), device) {
    std::int64_t channels = in;
    for (std::size_t i = 0; i < path.size(); ++i) {
      const auto& [size, by, out, groups] = path[i];
      path_.emplace_back(*this, fmt::format("conv{}", i + 1), fmt::format("bn{}", i + 1), channels,
                         out, Kernel2d{size, by, size / 2, groups}, /*relu=*/true);
      channels = out;
    }
    if (stride != 1 || in != channels)
      around_.emplace(*this, "downsample.0", "downsample.1", in, channels, Kernel2d{1, stride, 0},
                      /*relu=*/false);
  }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const Tensor residual = around_ ? around_->forward(input, {}, pass, saved) : input;
    Tensor x = input;
    for (std::size_t i = 0; i + 1 < path_.size(); ++i) x = path_[i].forward(x, {}, pass, saved);
    return path_.back().forward(x, residual, pass, saved);
  }

  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    // The backward of the last norm turns `grad_output` into the gradient of the residual.
    Tensor d = grad_output;
    for (std::size_t i = path_.size(); i-- > 0;) d = path_[i].backward(d, saved);
    device().kernels().add(
        {.in = around_ ? around_->backward(grad_output, saved) : grad_output, .out = d});
    return d;
  }

 private:
  std::vector<ConvNorm> path_;
  std::optional<ConvNorm> around_;
};

class ResnetHead final : public Unit {
 public:
  ResnetHead(std::int64_t in, std::int64_t classes, Device& device)
      : Unit("head", device),
        pool_(*this),
        classes_(*this, "fc", in, classes, uniform_for(in), uniform_for(in)) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    return classes_.forward(pool_.forward(input, pass, saved), pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    return pool_.backward(classes_.backward(grad_output, saved), saved);
  }

 private:
  AveragePool pool_;
  Linear classes_;
};

/// Number of blocks in each stage.
std::array<int, 4> blocks_of(const ModelConfig& config) {
  switch (config.layers) {
    case 10:
    case 14:
      return {1, 1, 1, 1};
    case 18:
      return {2, 2, 2, 2};
    case 34:
    case 50:
      return {3, 4, 6, 3};
    case 101:
      return {3, 4, 23, 3};
    case 152:
      return {3, 8, 36, 3};
    default:
      throw Error("model.layers = {}: choose 10, 14, 18, 34, 50, 101 or 152", config.layers);
  }
}

/// The channels of a bottleneck's 3x3 convolution, where `filters` are those of the stage.
std::int64_t width_of(const ModelConfig& config, std::int64_t filters) {
  constexpr std::int64_t usual = 64;  // torchvision's base width
  constexpr std::int64_t widest = 1 << 18;
  const auto& [groups, group_width] = config.own<ResnetOptions>();
  const std::int64_t width = filters * group_width / usual * groups;
  if (width > widest)
    throw Error(
        "model.groups = {} groups of model.group_width = {} make up to {} channels; there may be "
        "{} or less",
        groups, group_width, width, widest);
  if (width < 1 || filters * group_width % usual != 0)
    throw Error(
        "model.filters = {} and model.group_width = {}: their product has to be a multiple of {}",
        config.filters, group_width, usual);
  return width;
}

ModelConfig published_resnet(std::int64_t layers) {
  return {.kind = "resnet",
          .layers = layers,
          .image = 224,
          .classes = 1000,
          .stem = StemShape::imagenet};
}

ModelConfig resnext(std::int64_t layers, std::int64_t groups, std::int64_t group_width) {
  return published_resnet(layers).with(ResnetOptions{.groups = groups, .group_width = group_width});
}

ModelConfig resnet_cifar(std::int64_t layers) {
  return {.kind = "resnet", .layers = layers, .image = 32, .classes = 10, .stem = StemShape::cifar};
}

std::vector<Preset> resnet_presets() {
  constexpr std::string_view he = "He et al. 2016, v1.5, as in torchvision";
  constexpr std::string_view xie = "Xie et al. 2017, as in torchvision";
  constexpr std::string_view he_cifar = "the same for CIFAR: 3x3 stem without pool, 10 classes";
  return {
      {"resnet-18", he, published_resnet(18), 11'689'512},
      {"resnet-34", he, published_resnet(34), 21'797'672},
      {"resnet-50", he, published_resnet(50), 25'557'032},
      {"resnet-101", he, published_resnet(101), 44'549'160},
      {"resnet-152", he, published_resnet(152), 60'192'808},
      {"resnext-50-32x4d", xie, resnext(50, 32, 4), 25'028'904},
      {"resnext-101-32x8d", xie, resnext(101, 32, 8), 88'791'336},
      {"resnet-18-cifar", he_cifar, resnet_cifar(18), 11'173'962},
      {"resnet-34-cifar", he_cifar, resnet_cifar(34), 21'282'122},
      {"resnet-50-cifar", he_cifar, resnet_cifar(50), 23'520'842},
      {"resnet-101-cifar", he_cifar, resnet_cifar(101), 42'512'970},
      {"resnet-152-cifar", he_cifar, resnet_cifar(152), 58'156'618},
  };
}

}  // namespace

Fields fields_of(ResnetOptions& options) {
  return {
      {"groups", &options.groups,
       "resnet of 14, 50 or more layers: groups of the 3x3 convolutions; 32 in ResNeXt-50 32x4d",
       Range::positive},
      {"group_width", &options.group_width,
       "resnet of 14, 50 or more layers: channels of a group in the first stage if filters = 64 "
       "(in proportion otherwise), twice, four and eight times as many in the next; 4 in "
       "ResNeXt-50 32x4d",
       Range::positive}};
}

Model make_resnet(const ModelConfig& config, Device& device) {
  check_images(config);
  check_sizes(config, {"groups", "group_width"});
  const auto& [groups, group_width] = config.own<ResnetOptions>();
  const bool bottlenecks = config.layers == 14 || config.layers >= 50;
  if (!bottlenecks && (groups != 1 || group_width != ResnetOptions{}.group_width))
    throw Error(
        "model.groups and model.group_width are for bottlenecks, which model.layers = {} has not; "
        "choose 14, 50, 101 or 152",
        config.layers);
  Model model;
  model.units.push_back(std::make_unique<ResnetStem>(config, device));
  std::int64_t in = config.filters, inner = config.filters, stage = 1;
  for (const int blocks : blocks_of(config)) {
    const std::int64_t out = bottlenecks ? 4 * inner : inner;
    for (int i = 0; i < blocks; ++i) {
      const std::int64_t stride = stage > 1 && i == 0 ? 2 : 1;
      const auto path = bottlenecks ? bottleneck(width_of(config, inner), groups, stride, out)
                                    : std::vector<PathStep>{{3, stride, inner}, {3, 1, out}};
      model.units.push_back(std::make_unique<ResnetBlock>(fmt::format("layer{}.{}", stage, i),
                                                          device, in, stride, path));
      in = out;
    }
    inner *= 2;
    ++stage;
  }
  model.units.push_back(std::make_unique<ResnetHead>(in, config.classes, device));
  model.task = Task::image_class;
  model.input = {config.image, config.image, config.channels};
  model.terms = {{1, config.classes}};
  return model;
}

ModelInfo resnet_info() {
  return {.name = "resnet",
          .summary = "residual network of convolutions on images; each block is one unit",
          .make = make_resnet,
          .batch_norms = true,
          .keys = {"layers", "channels", "classes", "filters", "groups", "group_width", "stem"},
          .options = ResnetOptions{},
          .largest = {{"groups", 1 << 14}, {"group_width", 1 << 14}},
          .presets = resnet_presets,
          .names = [](const Model& model, const ModelConfig&) {
            return Names{.tensors = naming::torchvision_modules(model)};
          }};
}

}  // namespace ringside
