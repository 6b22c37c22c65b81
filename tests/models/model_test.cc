#include "core/models/model.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/models/cases.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using testing::complaint;
using testing::forward_of;

std::vector<std::string> unit_names(const Model& model) {
  std::vector<std::string> names;
  for (const auto& unit : model.units) names.push_back(unit->name());
  return names;
}

TEST(Models, SayHowLargeASampleAndItsLogitsAre) {
  constexpr std::int64_t samples = 3;
  for (const Case& c : cases()) {
    const auto device = make_cpu_device(1);
    BoundModel bound(*device, make_model(c.config, *device));
    testing::MicroBatch own(bound.model);
    Tensor x = input_of(c.config, bound.model, *device, samples, 1);
    EXPECT_EQ(static_cast<std::int64_t>(x.bytes()), samples * bound.model.input_bytes()) << c.name;
    EXPECT_EQ(x.count(), samples * bound.model.input.count()) << c.name;
    EXPECT_EQ(x.dtype(), input_dtype(bound.model.task)) << c.name;
    x = own.forward(bound.model, x, keeping);
    EXPECT_EQ(x.count(), samples * bound.model.logits_per_sample()) << c.name;
  }
}

TEST(Gpt, HasGpt2sNumberOfParameters) {
  const auto device = make_cpu_device(1);
  const std::int64_t L = 12, C = 768, T = 1024, V = 50257;
  const Model model =
      make_gpt({.kind = "gpt", .layers = L, .heads = 12, .width = C, .context = T, .vocabulary = V},
               *device);
  const std::int64_t embedding = V * C + T * C, block = 12 * C * C + 13 * C, head = 2 * C + V * C;
  EXPECT_EQ(model.parameter_count(), embedding + L * block + head);
  // GPT-2's head uses the token table and has no V * C weights of its own, so GPT-2 has 124,439,808
  // parameters.
  EXPECT_EQ(model.parameter_count() - V * C, 124'439'808);
  EXPECT_EQ(model.first_parameter(0), 0);
  EXPECT_EQ(model.first_parameter(3), embedding + 2 * block);
  EXPECT_EQ(model.task, Task::every_token);
}

TEST(Gpt, NamesItsUnitsAndParameters) {
  const auto device = make_cpu_device(1);
  const Model model = make_gpt({.layers = 2}, *device);
  EXPECT_EQ(unit_names(model),
            (std::vector<std::string>{"embedding", "block.0", "block.1", "head"}));
  std::vector<std::string> names;
  for (const auto& p : model.units[1]->layout().parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "norm1.weight", "norm1.bias", "attention.qkv.weight", "attention.qkv.bias",
                       "attention.out.weight", "attention.out.bias", "norm2.weight", "norm2.bias",
                       "mlp.in.weight", "mlp.in.bias", "mlp.out.weight", "mlp.out.bias"}));
}

TEST(Idefics3, NamesItsUnitsAndTakesAnImageAndItsText) {
  const auto device = make_cpu_device(1);
  const Model model = make_model(
      ModelConfig{.kind = "idefics3", .layers = 2, .context = 7, .image = 19, .channels = 1}.with(
          Idefics3Options{.patch = 3, .vision_layers = 1}),
      *device);
  EXPECT_EQ(unit_names(model), (std::vector<std::string>{"patches", "vision.0", "connector",
                                                         "block.0", "block.1", "head"}));
  EXPECT_EQ(model.task, Task::caption_tokens);
  EXPECT_EQ(model.input, Shape({19 * 19 + 7}));
  EXPECT_EQ(model.input_bytes(), 4 * (19 * 19 + 7));
  EXPECT_EQ(model.logits_per_sample(), 7 * 256) << "those of the text alone";
}

TEST(Idefics3, RefusesInputsOfAnotherLength) {
  const auto device = make_cpu_device(1);
  const BoundModel bound(
      *device,
      make_model(
          ModelConfig{.kind = "idefics3", .layers = 1, .width = 16, .context = 7, .hidden = 8}.with(
              Idefics3Options{.vision_layers = 1}),
          *device));
  EXPECT_EQ(complaint([&] {
              forward_of(*bound.model.units[0], tokens_of(*device, 2, 7, 9, 1), evaluation);
            }),
            "unit patches: input 2x7 is not [samples, n] with n = 3072 pixels plus 7 tokens");
}

TEST(Mlp, HasItsNumberOfParameters) {
  const auto device = make_cpu_device(1);
  const std::int64_t L = 3, C = 64, T = 8, V = 256;
  const Model model =
      make_mlp({.kind = "mlp", .layers = L, .width = C, .context = T, .vocabulary = V}, *device);
  EXPECT_EQ(model.parameter_count(), V * 8 + (T * 8 * C + C) + (L - 1) * (C * C + C) + (C * V + V));
  EXPECT_EQ(unit_names(model),
            (std::vector<std::string>{"embedding", "hidden.0", "hidden.1", "hidden.2", "head"}));
  EXPECT_EQ(model.task, Task::last_token);
  // A token's embedding has at least four numbers.
  const Model narrow =
      make_mlp({.kind = "mlp", .layers = 1, .width = C, .context = 64, .vocabulary = V}, *device);
  EXPECT_EQ(narrow.units[0]->layout().count(), V * 4);
}

TEST(Models, RefuseShapesThatCannotBe) {
  const auto device = make_cpu_device(1);
  EXPECT_EQ(complaint([&] { make_gpt({.heads = 5, .width = 128}, *device); }),
            "model.heads = 5 does not divide model.width = 128; choose a divisor");
  EXPECT_EQ(complaint([&] { make_gpt({.layers = 0}, *device); }),
            "model.layers = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(complaint([&] { make_mlp({.context = -1}, *device); }),
            "model.context = -1 is too small; it has to be 1 or more");
  EXPECT_EQ(complaint([&] { make_mlp({.vocabulary = 0}, *device); }),
            "model.vocabulary = 0 is too small; it has to be 1 or more");
}

TEST(Models, RefuseSizesWhoseBytesOverflow) {
  const auto device = make_cpu_device(1);
  for (const ModelInfo& model : models())
    for (const std::int64_t size : {std::int64_t{1} << 30, std::int64_t{1} << 57,
                                    std::int64_t{1} << 58, std::int64_t{1} << 62}) {
      ModelConfig config;
      for (const Field& field : fields_of(config)) {
        auto* const* value = std::get_if<std::int64_t*>(&field.value);
        if (!value || field.name == "batch_norm_group") continue;  // the planner limits it
        const std::int64_t before = std::exchange(**value, size);
        config.kind = model.name;
        EXPECT_EQ(complaint([&] {
                    make_model(config, *device);
                  }).find(fmt::format("model.{} = {} is too large", field.name, size)),
                  0u)
            << model.name << " " << field.name;
        **value = before;
      }
    }
}

TEST(Models, TheLargestCanBeCounted) {
  const auto device = make_cpu_device(1);
  const Model gpt = make_model(
      {.kind = "gpt", .layers = 64, .width = 1 << 20, .context = 1 << 24, .vocabulary = 1 << 28},
      *device);
  EXPECT_GT(gpt.parameter_count(), std::int64_t{1} << 48);
  const Model vgg = make_model({.kind = "vgg",
                                .layers = 19,
                                .image = 1 << 14,
                                .channels = 1 << 14,
                                .classes = 1 << 24,
                                .filters = 1 << 14,
                                .stem = StemShape::imagenet},
                               *device);
  EXPECT_GT(vgg.parameter_count(), std::int64_t{1} << 54);
  EXPECT_LT(vgg.parameter_count(), std::int64_t{1} << 59);
  const Model llama = make_model({.kind = "llama",
                                  .layers = 64,
                                  .heads = 1 << 14,
                                  .width = 1 << 20,
                                  .hidden = 1 << 22,
                                  .vocabulary = 1 << 28},
                                 *device);
  EXPECT_GT(llama.parameter_count(), std::int64_t{1} << 49);
  EXPECT_LT(llama.parameter_count(), std::int64_t{1} << 51);  // 2^59 with the most layers
  const Model idefics3 = make_model(
      ModelConfig{.kind = "idefics3", .layers = 1, .image = 1 << 14, .channels = 1 << 14}.with(
          Idefics3Options{.patch = 1 << 10,
                          .vision_layers = 64,
                          .vision_width = 1 << 16,
                          .vision_hidden = 1 << 18}),
      *device);
  EXPECT_GT(idefics3.parameter_count(), std::int64_t{1} << 50);
  EXPECT_LT(idefics3.parameter_count(), std::int64_t{1} << 51);
  const Model t5 = make_model(ModelConfig{.kind = "t5",
                                          .layers = 16,
                                          .heads = 1 << 10,
                                          .width = 1 << 20,
                                          .hidden = 1 << 22,
                                          .vocabulary = 1 << 28}
                                  .with(T5Options{.head_width = 1 << 10}),
                              *device);
  EXPECT_GT(t5.parameter_count(), std::int64_t{1} << 48);
  EXPECT_LT(t5.parameter_count(), std::int64_t{1} << 50);  // 2^59 with the most layers
}

TEST(Models, RefuseWhatTheirKindsCannotBe) {
  const auto device = make_cpu_device(1);
  const auto message = [&](const ModelConfig& config) {
    return complaint([&] { make_model(config, *device); });
  };
  EXPECT_EQ(message({.kind = "gpt", .dropout = 1}),
            "model.dropout = 1 is out of range; it has to be 0 or more, and below 1 even after "
            "rounding to fp32");
  EXPECT_EQ(message({.kind = "gpt", .dropout = 0.99999999}).find("model.dropout = 0.99999999"), 0u);
  EXPECT_EQ(message({.kind = "gpt", .context = 8, .positions = 7}),
            "model.positions = 7 is less than model.context = 8; raise it, or set it to 0");
  EXPECT_EQ(message(ModelConfig{.kind = "llama", .heads = 8}.with(LlamaOptions{.kv_heads = 3})),
            "model.kv_heads = 3 does not divide model.heads = 8; choose a divisor, or 0");
  EXPECT_EQ(message(ModelConfig{.kind = "llama", .heads = 8}.with(LlamaOptions{.kv_heads = -8})),
            "model.kv_heads = -8 does not divide model.heads = 8; choose a divisor, or 0");
  EXPECT_EQ(message({.kind = "llama", .heads = 4, .width = 12}),
            "model.width / model.heads = 3 is odd, but rotary positions turn pairs of elements; "
            "choose an even width for each head");
  EXPECT_EQ(message({.kind = "llama", .heads = 1, .width = 1024}),
            "model.width / model.heads = 1024 is too large; it has to be 512 or less");
  EXPECT_EQ(message({.kind = "llama", .hidden = -1}),
            "model.hidden = -1 is too small; it has to be 1 or more, or 0");
  EXPECT_EQ(message(ModelConfig{.kind = "llama"}.with(LlamaOptions{.rope_base = 0.5})),
            "model.rope_base = 0.5 is out of range; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "llama"}.with(LlamaOptions{.rope_factor = std::nan("")})),
            "model.rope_factor = nan is out of range; it has to be 1 or more");
  EXPECT_EQ(message({.kind = "t5", .heads = 3}),
            "model.heads = 3 does not divide model.width = 128; choose a divisor, or set "
            "model.head_width");
  EXPECT_EQ(message(ModelConfig{.kind = "t5", .heads = 3}.with(T5Options{.head_width = 2})),
            "nothing");
  EXPECT_EQ(
      message(ModelConfig{.kind = "t5", .heads = 1 << 11}.with(T5Options{.head_width = 1 << 10})),
      "model.heads = 2048 heads of model.head_width = 1024 have more than 1048576 elements");
  EXPECT_EQ(message({.kind = "t5", .target_context = -1}),
            "model.target_context = -1 is too small; it has to be 1 or more, or 0");
  EXPECT_EQ(message(ModelConfig{.kind = "t5"}.with(T5Options{.relative_buckets = 9})),
            "model.relative_buckets = 9: choose an even number, 4 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "t5"}.with(T5Options{.relative_distance = 16})),
            "model.relative_distance = 16 is too small; it has to be more than half of "
            "model.relative_buckets = 32");
  EXPECT_EQ(message({.kind = "bert", .heads = 3}),
            "model.heads = 3 does not divide model.width = 128; choose a divisor");
  EXPECT_EQ(message({.kind = "bert", .context = 8, .masked = 9}),
            "model.masked = 9 is more than model.context = 8; lower it");
  EXPECT_EQ(message({.kind = "bert", .segments = 0}),
            "model.segments = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3", .heads = 8}.with(LlamaOptions{.kv_heads = 3})),
            "model.kv_heads = 3 does not divide model.heads = 8; choose a divisor, or 0");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3"}.with(Idefics3Options{.patch = 0})),
            "model.patch = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3"}.with(Idefics3Options{.vision_layers = 0})),
            "model.vision_layers = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3"}.with(Idefics3Options{.vision_heads = 3})),
            "model.vision_heads = 3 does not divide model.vision_width = 64; choose a divisor");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3", .image = 8}.with(Idefics3Options{.patch = 9})),
            "model.patch = 9 is larger than model.image = 8; lower it");
  EXPECT_EQ(message(ModelConfig{.kind = "idefics3", .image = 39}.with(
                Idefics3Options{.patch = 4, .shuffle = 2})),
            "model.shuffle = 2 does not divide the 9 patches of a side, which model.image = 39 and "
            "model.patch = 4 make; choose a divisor");
  EXPECT_EQ(
      message(ModelConfig{.kind = "idefics3", .image = 512}.with(Idefics3Options{.patch = 1})),
      "model.patch = 1 makes 262144 patches of an image; there may be 65536 or less, so raise "
      "it");
  EXPECT_EQ(message({.kind = "resnet", .layers = 20}),
            "model.layers = 20: choose 10, 14, 18, 34, 50, 101 or 152");
  EXPECT_EQ(message({.kind = "resnet", .layers = 18, .channels = 0}),
            "model.channels = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "resnet", .layers = 50}.with(ResnetOptions{.groups = 0})),
            "model.groups = 0 is too small; it has to be 1 or more");
  EXPECT_EQ(message(ModelConfig{.kind = "resnet", .layers = 18}.with(ResnetOptions{.groups = 2})),
            "model.groups and model.group_width are for bottlenecks, which model.layers = 18 has "
            "not; choose 14, 50, 101 or 152");
  EXPECT_EQ(
      message(ModelConfig{.kind = "resnet", .layers = 50, .filters = 4}.with(
          ResnetOptions{.group_width = 4})),
      "model.filters = 4 and model.group_width = 4: their product has to be a multiple of 64");
  EXPECT_EQ(
      message(ModelConfig{.kind = "resnet", .layers = 50}.with(
          ResnetOptions{.groups = 1 << 14, .group_width = 1 << 14})),
      "model.groups = 16384 groups of model.group_width = 16384 make up to 268435456 channels; "
      "there may be 262144 or less");
  EXPECT_EQ(message({.kind = "vgg", .layers = 18}), "model.layers = 18: choose 11, 13, 16 or 19");
  EXPECT_EQ(message({.kind = "vgg", .layers = 16, .image = 28}),
            "model.image = 28: VGG halves the image's side 5 times; choose a multiple of 32");
  EXPECT_EQ(message({.kind = "alexnet", .image = 62}),
            "model.image = 62: nothing would be left behind AlexNet's pools; choose 63 or more");
  EXPECT_EQ(message({.kind = "alexnet", .dropout = 1, .image = 63}).find("model.dropout = 1"), 0u);
  EXPECT_EQ(message({.kind = "inception", .layers = 47, .image = 75}),
            "model.layers = 47: choose 48, or 24 for one block of each kind");
  EXPECT_EQ(message({.kind = "inception", .layers = 48, .image = 74}),
            "model.image = 74: nothing would be left behind Inception's last block; choose 75 or "
            "more");
  // Settings that a kind of model does not use may have any value.
  EXPECT_EQ(message(ModelConfig{.kind = "gpt", .masked = -1, .image = -1}.with(
                LlamaOptions{.kv_heads = 3})),
            "nothing");
  EXPECT_EQ(message({.kind = "llama", .positions = 7, .dropout = 0.1}), "nothing");
  EXPECT_EQ(message({.kind = "resnet", .layers = 18, .heads = 0, .dropout = 7}), "nothing");
  EXPECT_EQ(message({.kind = "alexnet", .layers = 3, .image = 63, .filters = 1}), "nothing");
}

TEST(ModelKeys, OfSeveralKindsStandOnce) {
  ModelConfig config;
  std::set<std::string_view> names;
  for (const Field& field : fields_of(config))
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
  EXPECT_TRUE(names.contains("rope_base")) << "of llama alone";
}

TEST(ResNet, NamesItsParametersAsTorchvisionDoes) {
  const auto device = make_cpu_device(1);
  const Model model = make_model({.kind = "resnet", .layers = 50}, *device);
  EXPECT_EQ(model.units.size(), 18u);
  const auto names = [&](std::size_t unit) {
    std::vector<std::string> out;
    for (const Parameter& p : model.units[unit]->layout().parameters()) out.push_back(p.name);
    for (const auto& statistic : model.units[unit]->statistics()) out.push_back(statistic.name);
    return out;
  };
  EXPECT_EQ(model.units[1]->name(), "layer1.0");
  EXPECT_EQ(model.units[4]->name(), "layer2.0");
  EXPECT_EQ(names(0), (std::vector<std::string>{"conv1.weight", "bn1.weight", "bn1.bias",
                                                "bn1.running_mean", "bn1.running_var"}));
  EXPECT_EQ(names(1), (std::vector<std::string>{"conv1.weight",
                                                "bn1.weight",
                                                "bn1.bias",
                                                "conv2.weight",
                                                "bn2.weight",
                                                "bn2.bias",
                                                "conv3.weight",
                                                "bn3.weight",
                                                "bn3.bias",
                                                "downsample.0.weight",
                                                "downsample.1.weight",
                                                "downsample.1.bias",
                                                "bn1.running_mean",
                                                "bn1.running_var",
                                                "bn2.running_mean",
                                                "bn2.running_var",
                                                "bn3.running_mean",
                                                "bn3.running_var",
                                                "downsample.1.running_mean",
                                                "downsample.1.running_var"}));
  EXPECT_EQ(names(17), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  // As in version 1.5 of ResNet, the 3x3 convolution of a block has the stride, not the 1x1 one.
  const auto& block = model.units[4]->layout().parameters();
  EXPECT_EQ(block[0].shape, Shape({128, 1, 1, 256}));
  EXPECT_EQ(block[3].shape, Shape({128, 3, 3, 128}));
}

TEST(Vgg, NamesItsParametersAsTorchvisionDoes) {
  const auto device = make_cpu_device(1);
  const Model model = make_model({.kind = "vgg", .layers = 16}, *device);
  std::vector<std::string> names;
  for (const auto& unit : model.units)
    for (const Parameter& p : unit->layout().parameters())
      if (p.name.ends_with("weight")) names.push_back(p.name);
  std::vector<std::string> expected;
  for (int i : {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28})
    expected.push_back(fmt::format("features.{}.weight", i));
  for (int i : {0, 3, 6}) expected.push_back(fmt::format("classifier.{}.weight", i));
  EXPECT_EQ(names, expected);
}

/// All positions and channels that torchvision's model has there.
TEST(AlexNet, HasTheLayersOfTorchvision) {
  const auto device = make_cpu_device(1);
  const Model model =
      make_model({.kind = "alexnet", .dropout = 0.5, .image = 224, .classes = 1000}, *device);
  std::vector<std::pair<std::string, Shape>> weights;
  for (const auto& unit : model.units)
    for (const Parameter& p : unit->layout().parameters())
      if (p.name.ends_with("weight")) weights.emplace_back(p.name, p.shape);
  EXPECT_EQ(weights, (std::vector<std::pair<std::string, Shape>>{
                         {"features.0.weight", {64, 11, 11, 3}},
                         {"features.3.weight", {192, 5, 5, 64}},
                         {"features.6.weight", {384, 3, 3, 192}},
                         {"features.8.weight", {256, 3, 3, 384}},
                         {"features.10.weight", {256, 3, 3, 256}},
                         {"classifier.1.weight", {4096, 6 * 6 * 256}},
                         {"classifier.4.weight", {4096, 4096}},
                         {"classifier.6.weight", {1000, 4096}}}));
  // PyTorch's own initial values: uniform, as wide as the inputs of a kernel allow.
  for (const Parameter& p : model.units[1]->layout().parameters()) {
    EXPECT_EQ(p.init.kind, Init::Kind::uniform) << p.name;
    EXPECT_FLOAT_EQ(p.init.value, 1 / std::sqrt(5.0f * 5 * 64)) << p.name;
  }
}

TEST(Inception, HasTheBlocksOfTorchvision) {
  const auto device = make_cpu_device(1);
  ModelConfig config{.kind = "inception", .layers = 48, .image = 299, .filters = 32};
  const Model model = make_model(config, *device);
  EXPECT_EQ(unit_names(model),
            (std::vector<std::string>{"stem.0", "stem.1", "Mixed_5b", "Mixed_5c", "Mixed_5d",
                                      "Mixed_6a", "Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e",
                                      "Mixed_7a", "Mixed_7b", "Mixed_7c", "head"}));
  std::map<std::string, Shape> shapes;
  std::map<std::string, Init> init;
  for (const auto& unit : model.units)
    for (const Parameter& p : unit->layout().parameters()) {
      shapes[unit->name() + " " + p.name] = p.shape;
      init[unit->name() + " " + p.name] = p.init;
    }
  EXPECT_EQ(shapes["stem.0 Conv2d_1a_3x3.conv.weight"], Shape({32, 3, 3, 3}));
  EXPECT_EQ(shapes["stem.1 Conv2d_4a_3x3.conv.weight"], Shape({192, 3, 3, 80}));
  EXPECT_EQ(shapes["Mixed_5d branch_pool.conv.weight"], Shape({64, 1, 1, 288}));
  EXPECT_EQ(shapes["Mixed_6a branch3x3.conv.weight"], Shape({384, 3, 3, 288}));
  EXPECT_EQ(shapes["Mixed_6c branch7x7_2.conv.weight"], Shape({160, 1, 7, 160}));
  EXPECT_EQ(shapes["Mixed_6c branch7x7_3.conv.weight"], Shape({192, 7, 1, 160}));
  EXPECT_EQ(shapes["Mixed_6e branch7x7dbl_2.conv.weight"], Shape({192, 7, 1, 192}));
  EXPECT_EQ(shapes["Mixed_7a branch7x7x3_4.bn.weight"], Shape({192}));
  EXPECT_EQ(shapes["Mixed_7b branch3x3_2a.conv.weight"], Shape({384, 1, 3, 384}));
  EXPECT_EQ(shapes["Mixed_7c branch3x3dbl_3b.conv.weight"], Shape({384, 3, 1, 384}));
  EXPECT_EQ(shapes["Mixed_7c branch1x1.conv.weight"], Shape({320, 1, 1, 2048}));
  EXPECT_EQ(shapes["head fc.weight"], Shape({10, 2048}));
  EXPECT_FLOAT_EQ(init["Mixed_6c branch7x7_2.conv.weight"].value, 0.1f);
  EXPECT_FLOAT_EQ(init["head fc.weight"].value, 0.1f);

  // Channels are scaled and rounded up: 48 and 80 published channels are no multiples of 32.
  config.filters = 1;
  const Model narrow = make_model(config, *device);
  for (const Parameter& p : narrow.units[1]->layout().parameters())
    if (p.name == "Conv2d_4a_3x3.conv.weight") {
      EXPECT_EQ(p.shape, Shape({6, 3, 3, 3}));
    }
}

/// The gradient of a tied table is the sum of the embedding's and the head's gradients.
TEST(Gpt, AddsBothGradientsOfATiedTable) {
  const auto device = make_cpu_device(1);
  ModelConfig config{.layers = 1, .heads = 1, .width = 4, .context = 4, .vocabulary = 8};
  BoundModel apart(*device, make_gpt(config, *device));
  config.tied = true;
  BoundModel tied(*device, make_gpt(config, *device));
  EXPECT_EQ(tied.model.units.back()->lender(), tied.model.units.front().get());
  EXPECT_EQ(apart.model.units.back()->lender(), nullptr);
  const std::int64_t table = config.vocabulary * config.width;
  EXPECT_EQ(tied.model.parameter_count() + table, apart.model.parameter_count());
  // Both models get the same values: the head of `apart` gets a copy of the token table.
  for (std::size_t u = 0; u < tied.model.units.size(); ++u)
    device->kernels().copy({.in = tied.parameters[u],
                            .out = apart.parameters[u].range(0, tied.parameters[u].count())});
  const Tensor &head = apart.parameters.back(), &head_gradient = apart.gradients.back();
  device->kernels().copy(
      {.in = tied.parameters[0].range(0, table), .out = head.range(head.count() - table, table)});
  for (BoundModel* bound : {&apart, &tied}) {
    testing::MicroBatch own(bound->model);
    own.backward(bound->model, own.forward(bound->model, tokens_of(*device, 2, 4, 8, 1), keeping));
  }
  device->kernels().add({.in = head_gradient.range(head.count() - table, table),
                         .out = apart.gradients[0].range(0, table)});
  EXPECT_EQ(download(tied.gradients[0]), download(apart.gradients[0]));
}

TEST(Models, RefuseInputsOfAnotherLength) {
  const auto device = make_cpu_device(1);
  const ModelConfig config{.layers = 1, .heads = 1, .width = 4, .context = 4, .vocabulary = 8};
  BoundModel gpt(*device, make_gpt(config, *device)), mlp(*device, make_mlp(config, *device));
  const Tensor longer = tokens_of(*device, 1, 5, 8, 1), shorter = tokens_of(*device, 1, 3, 8, 1);
  EXPECT_THROW(forward_of(*gpt.model.units[0], longer, evaluation), Error);
  EXPECT_THROW(forward_of(*mlp.model.units[0], longer, evaluation), Error);
  EXPECT_THROW(forward_of(*mlp.model.units[0], shorter, evaluation), Error);
  EXPECT_EQ(forward_of(*gpt.model.units[0], shorter, evaluation).shape(), Shape({1, 3, 4}));
}

TEST(Models, GiveALaterPositionNoSayInAnEarlierOne) {
  const auto device = make_cpu_device(1);
  BoundModel gpt(
      *device,
      make_gpt({.layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 16}, *device));
  const auto logits = [&](std::int32_t last) {
    Tensor x = tokens_of(*device, 1, 6, 16, 1);
    x.data<std::int32_t>()[5] = last;
    return download(testing::MicroBatch(gpt.model).forward(gpt.model, x, evaluation));
  };
  const auto a = logits(3), b = logits(4);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 5 * 16, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 5 * 16, a.end(), b.begin() + 5 * 16));
}

class InitialValues : public ::testing::TestWithParam<std::string> {
 protected:
  Model make() {
    const ModelConfig config{
        .kind = GetParam(), .layers = 3, .heads = 4, .width = 96, .context = 16, .vocabulary = 256};
    return GetParam() == "gpt" ? make_gpt(config, *device_) : make_mlp(config, *device_);
  }
  std::vector<float> values(const Model& model, std::size_t unit, std::uint64_t seed,
                            std::int64_t begin, std::int64_t count) {
    const Tensor out = device_->tensor({count}, MemoryKind::parameter);
    initialise(*model.units[unit], model.first_parameter(unit), seed, begin, out);
    return download(out);
  }
  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_P(InitialValues, DoNotDependOnHowTheRangeIsCut) {
  const Model model = make();
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::int64_t count = model.units[u]->layout().count();
    const auto whole = values(model, u, 1, 0, count);
    for (std::int64_t parts : {2, 3, 7}) {
      const std::int64_t part = (count + parts - 1) / parts;
      std::vector<float> joined;
      for (std::int64_t begin = 0; begin < count; begin += part)
        for (float v : values(model, u, 1, begin, std::min(part, count - begin)))
          joined.push_back(v);
      EXPECT_EQ(joined, whole) << model.units[u]->name() << " in " << parts;
    }
    EXPECT_THROW(values(model, u, 1, 1, count), Error);
  }
}

TEST_P(InitialValues, DifferBySeedAndByPlace) {
  const Model model = make();
  const auto count = [&](std::size_t u) { return model.units[u]->layout().count(); };
  EXPECT_NE(values(model, 1, 1, 0, count(1)), values(model, 1, 2, 0, count(1)));
  EXPECT_NE(values(model, 2, 1, 0, count(2)), values(model, 3, 1, 0, count(3)));
}

TEST_P(InitialValues, HaveTheSpreadThatTheLayoutSays) {
  const Model model = make();
  for (std::size_t u = 0; u < model.units.size(); ++u)
    for (const Parameter& p : model.units[u]->layout().parameters()) {
      double sum = 0, squares = 0, largest = 0;
      const auto n = static_cast<double>(p.shape.count());
      for (float v : values(model, u, 1, p.begin, p.shape.count())) {
        sum += v;
        squares += static_cast<double>(v) * v;
        largest = std::max(largest, std::abs(static_cast<double>(v)));
      }
      const double size = p.init.value;
      switch (p.init.kind) {
        case Init::Kind::constant:
          EXPECT_EQ(sum, n * size) << p.name;
          EXPECT_EQ(largest, std::abs(size)) << p.name;
          break;
        case Init::Kind::normal:
          EXPECT_NEAR(sum / n, 0, 5 * size / std::sqrt(n)) << p.name;
          EXPECT_NEAR(squares / n, size * size, 8 * size * size / std::sqrt(n)) << p.name;
          break;
        case Init::Kind::uniform:
          EXPECT_LE(largest, size) << p.name;
          EXPECT_NEAR(sum / n, 0, 5 * size / std::sqrt(n)) << p.name;
          EXPECT_NEAR(squares / n, size * size / 3, 5 * size * size / std::sqrt(n)) << p.name;
      }
    }
}

/// The whole unit is large enough that several threads draw its values; each part is so small that
/// one thread draws it.
TEST(InitialValuesOfLargeUnits, AreThoseOfTheirParts) {
  const auto device = make_cpu_device(1);
  const Model model = make_gpt(
      {.kind = "gpt", .layers = 1, .heads = 4, .width = 256, .context = 16, .vocabulary = 256},
      *device);
  const std::int64_t count = model.units[1]->layout().count(), part = count / 8 + 1;
  const auto values = [&](std::int64_t begin, std::int64_t n) {
    const Tensor out = device->tensor({n}, MemoryKind::parameter);
    initialise(*model.units[1], model.first_parameter(1), 1, begin, out);
    const auto drawn = out.span<float>();
    return std::vector<float>(drawn.begin(), drawn.end());
  };
  std::vector<float> joined;
  for (std::int64_t begin = 0; begin < count; begin += part)
    for (float value : values(begin, std::min(part, count - begin))) joined.push_back(value);
  EXPECT_EQ(values(0, count), joined);
}

INSTANTIATE_TEST_SUITE_P(Models, InitialValues, ::testing::Values("gpt", "mlp"),
                         [](const auto& info) { return info.param; });

TEST(Gpt, StartsWithSmallerProjectionsIntoTheResidualStream) {
  const auto device = make_cpu_device(1);
  const Model model = make_gpt({.layers = 8}, *device);
  std::map<std::string, Init> init;
  for (const Parameter& p : model.units[1]->layout().parameters()) init[p.name] = p.init;
  EXPECT_FLOAT_EQ(init["attention.qkv.weight"].value, 0.02f);
  EXPECT_FLOAT_EQ(init["mlp.in.weight"].value, 0.02f);
  EXPECT_FLOAT_EQ(init["attention.out.weight"].value, 0.005f);
  EXPECT_FLOAT_EQ(init["mlp.out.weight"].value, 0.005f);
  EXPECT_EQ(init["norm1.weight"].value, 1);
  EXPECT_EQ(init["norm2.bias"].value, 0);
}

}  // namespace
}  // namespace ringside
