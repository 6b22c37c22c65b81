#include "core/models/inception.h"

#include <utility>

#include "core/base/error.h"
#include "core/models/image_input.h"
#include "core/models/inception_block.h"
#include "core/nn/dropout.h"
#include "core/nn/layers.h"
#include "core/nn/pooling.h"

namespace ringside {
namespace {

using inception::Branch;
using inception::Step;

constexpr std::int64_t inception_smallest_image =
    75;  // with it one position is left behind the last block
constexpr Kernel2d one{1, 1, 0}, three{3, 1, 1}, five{5, 1, 2};
constexpr Kernel2d three_halving{3, 2, 0};
constexpr Kernel2d seven_across{{1, 7}, 1, {0, 3}}, seven_down{{7, 1}, 1, {3, 0}};
constexpr Kernel2d three_across{{1, 3}, 1, {0, 1}}, three_down{{3, 1}, 1, {1, 0}};

/// Convolutions one after the other, then a max pool.
class InceptionStem final : public Unit {
 public:
  /// If `first`, the unit takes images of the data set, whose gradient it does not compute.
  InceptionStem(const std::string& name, const ModelConfig& c, bool first, std::int64_t in,
                const std::vector<Step>& steps, Device& device)
      : Unit(name, device), config_(c), first_(first), pool_(*this, Window2d{3, 2, 0}) {
    for (const Step& step : steps) {
      steps_.push_back(inception::make_step(*this, in, step));
      in = step.out;
    }
  }

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    Tensor x = first_ ? image_input(*this, config_, input) : input;
    for (ConvNorm& step : steps_) x = step.forward(x, {}, pass, saved);
    return pool_.forward(x, pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    Tensor d = pool_.backward(grad_output, saved);
    for (std::size_t i = steps_.size(); i-- > 0;)
      d = steps_[i].backward(d, saved, /*wanted=*/i > 0 || !first_);
    return d;
  }

 private:
  ModelConfig config_;
  bool first_;
  std::vector<ConvNorm> steps_;
  MaxPool pool_;
};

class InceptionHead final : public Unit {
 public:
  InceptionHead(std::int64_t in, const ModelConfig& c, Device& device)
      : Unit("head", device),
        pool_(*this),
        dropout_(*this, "dropout", c.dropout),
        classes_(*this, "fc", in, c.classes, {Init::Kind::normal, 0.1f}, uniform_for(in)) {}

  Tensor forward(const Tensor& input, const Pass& pass, Saved& saved) override {
    const Tensor pooled = pool_.forward(input, pass, saved);
    const Tensor x = dropout_.forward(pooled, input.shape()[0], pass, saved);
    return classes_.forward(x, pass, saved);
  }
  Tensor backward(const Tensor& grad_output, Saved& saved) override {
    const Tensor d = classes_.backward(grad_output, saved);
    return pool_.backward(dropout_.backward(d, saved), saved);
  }

 private:
  AveragePool pool_;
  DropoutLayer dropout_;
  Linear classes_;
};

/// The kinds of blocks: a() to e() are torchvision's InceptionA to InceptionE. The numbers in them
/// are the published channels.
class Kinds {
 public:
  explicit Kinds(std::int64_t filters) : filters_(filters) {}

  std::vector<Branch> a(std::int64_t pooled) const {
    return {{.path = {step("branch1x1", 64, one)}},
            {.path = {step("branch5x5_1", 48, one), step("branch5x5_2", 64, five)}},
            {.path = {step("branch3x3dbl_1", 64, one), step("branch3x3dbl_2", 96, three),
                      step("branch3x3dbl_3", 96, three)}},
            around(pooled)};
  }
  std::vector<Branch> b() const {
    return {{.path = {step("branch3x3", 384, three_halving)}},
            {.path = {step("branch3x3dbl_1", 64, one), step("branch3x3dbl_2", 96, three),
                      step("branch3x3dbl_3", 96, three_halving)}},
            {.pool = Branch::Pool::max}};
  }
  std::vector<Branch> c(std::int64_t inner) const {
    return {{.path = {step("branch1x1", 192, one)}},
            {.path = {step("branch7x7_1", inner, one), step("branch7x7_2", inner, seven_across),
                      step("branch7x7_3", 192, seven_down)}},
            {.path = {step("branch7x7dbl_1", inner, one), step("branch7x7dbl_2", inner, seven_down),
                      step("branch7x7dbl_3", inner, seven_across),
                      step("branch7x7dbl_4", inner, seven_down),
                      step("branch7x7dbl_5", 192, seven_across)}},
            around(192)};
  }
  std::vector<Branch> d() const {
    return {{.path = {step("branch3x3_1", 192, one), step("branch3x3_2", 320, three_halving)}},
            {.path = {step("branch7x7x3_1", 192, one), step("branch7x7x3_2", 192, seven_across),
                      step("branch7x7x3_3", 192, seven_down),
                      step("branch7x7x3_4", 192, three_halving)}},
            {.pool = Branch::Pool::max}};
  }
  std::vector<Branch> e() const {
    return {
        {.path = {step("branch1x1", 320, one)}},
        {.path = {step("branch3x3_1", 384, one)},
         .ends = {step("branch3x3_2a", 384, three_across), step("branch3x3_2b", 384, three_down)}},
        {.path = {step("branch3x3dbl_1", 448, one), step("branch3x3dbl_2", 384, three)},
         .ends = {step("branch3x3dbl_3a", 384, three_across),
                  step("branch3x3dbl_3b", 384, three_down)}},
        around(192)};
  }
  Step step(const char* name, std::int64_t published, const Kernel2d& kernel) const {
    constexpr std::int64_t first = 32;  // published channels of the first convolution
    return {name, (published * filters_ + first - 1) / first, kernel};
  }

 private:
  Branch around(std::int64_t published) const {
    return {.pool = Branch::Pool::average, .path = {step("branch_pool", published, one)}};
  }

  std::int64_t filters_;
};

/// The blocks in their order, with their names.
std::vector<std::pair<const char*, std::vector<Branch>>> blocks_of(const ModelConfig& config,
                                                                   const Kinds& kinds) {
  switch (config.layers) {
    case 24:
      return {{"Mixed_5b", kinds.a(32)},
              {"Mixed_6a", kinds.b()},
              {"Mixed_6b", kinds.c(128)},
              {"Mixed_7a", kinds.d()},
              {"Mixed_7b", kinds.e()}};
    case 48:
      return {{"Mixed_5b", kinds.a(32)},  {"Mixed_5c", kinds.a(64)},  {"Mixed_5d", kinds.a(64)},
              {"Mixed_6a", kinds.b()},    {"Mixed_6b", kinds.c(128)}, {"Mixed_6c", kinds.c(160)},
              {"Mixed_6d", kinds.c(160)}, {"Mixed_6e", kinds.c(192)}, {"Mixed_7a", kinds.d()},
              {"Mixed_7b", kinds.e()},    {"Mixed_7c", kinds.e()}};
    default:
      throw Error("model.layers = {}: choose 48, or 24 for one block of each kind", config.layers);
  }
}

std::vector<Preset> inception_presets() {
  return {{"inception-v3", "Szegedy et al. 2016, as in torchvision without auxiliary classifier",
           ModelConfig{.kind = "inception",
                       .layers = 48,
                       .dropout = 0.5,
                       .image = 299,
                       .classes = 1000,
                       .filters = 32},
           23'834'568}};
}

}  // namespace

Model make_inception(const ModelConfig& config, Device& device) {
  check_images(config);
  check_dropout(config);
  if (config.image < inception_smallest_image)
    throw Error(
        "model.image = {}: nothing would be left behind Inception's last block; choose {} or more",
        config.image, inception_smallest_image);
  const Kinds kinds(config.filters);
  const auto blocks = blocks_of(config, kinds);
  Model model;
  const auto stem = [&](std::int64_t in, const std::vector<Step>& steps) {
    const std::size_t index = model.units.size();
    model.units.push_back(std::make_unique<InceptionStem>(fmt::format("stem.{}", index), config,
                                                          index == 0, in, steps, device));
    return steps.back().out;
  };
  std::int64_t in = stem(config.channels, {kinds.step("Conv2d_1a_3x3", 32, three_halving),
                                           kinds.step("Conv2d_2a_3x3", 32, Kernel2d{3, 1, 0}),
                                           kinds.step("Conv2d_2b_3x3", 64, three)});
  in = stem(in, {kinds.step("Conv2d_3b_1x1", 80, one),
                 kinds.step("Conv2d_4a_3x3", 192, Kernel2d{3, 1, 0})});
  for (const auto& [name, branches] : blocks) {
    model.units.push_back(inception::make_block(name, in, branches, device));
    std::int64_t out = 0;
    for (const Branch& branch : branches) out += branch.channels(in);
    in = out;
  }
  model.units.push_back(std::make_unique<InceptionHead>(in, config, device));
  model.task = Task::image_class;
  model.input = {config.image, config.image, config.channels};
  model.terms = {{1, config.classes}};
  return model;
}

ModelInfo inception_info() {
  return {.name = "inception",
          .summary = "Inception-v3 on images, without auxiliary classifier; each block is one unit",
          .make = make_inception,
          .batch_norms = true,
          .keys = {"layers", "channels", "classes", "filters"},
          .presets = inception_presets,
          .names = [](const Model& model, const ModelConfig&) {
            return Names{.tensors = naming::torchvision_modules(model)};
          }};
}

}  // namespace ringside
