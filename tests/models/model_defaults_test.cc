// Epsilon and activation: keys whose defaults are those of the published models.
#include "core/models/model_defaults.h"

#include <gmock/gmock.h>

#include "core/models/presets.h"
#include "tests/models/cases.h"
#include "tests/support/complaint.h"

namespace ringside {
namespace {

using testing::complaint;
using ::testing::ElementsAre;
using ::testing::FloatNear;

/// The parameter of the model's unit `u` gets these values, from its first element on.
void set(BoundModel& bound, std::size_t u, const std::string& name,
         const std::vector<float>& values) {
  for (const Parameter& p : bound.model.units[u]->layout().parameters())
    if (p.name == name) {
      const auto out = bound.parameters[u].span<float>();
      std::copy(values.begin(), values.end(), out.begin() + p.begin);
      return;
    }
  ADD_FAILURE() << "no " << name;
}

/// The output of a model's head for the stream 1, 2, 3, 4 if its linear layer passes on the norm.
std::vector<float> normalised(ModelConfig config) {
  const auto device = make_cpu_device(1);
  config.layers = 1;
  config.heads = 2;
  config.width = config.vocabulary = 4;
  config.context = 1;
  BoundModel bound(*device, make_model(config, *device));
  const std::size_t head = bound.model.units.size() - 1;
  set(bound, head, "norm.weight", {1, 1, 1, 1});
  if (config.kind == "gpt") set(bound, head, "norm.bias", {0, 0, 0, 0});
  set(bound, head, "logits.weight", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  return download(testing::forward_of(*bound.model.units[head],
                                      upload(*device, {1, 2, 3, 4}, {1, 1, 4}), evaluation));
}

auto near(std::vector<float> values, float scale) {
  for (float& value : values) value *= scale;
  return ElementsAre(FloatNear(values[0], 1e-6F), FloatNear(values[1], 1e-6F),
                     FloatNear(values[2], 1e-6F), FloatNear(values[3], 1e-6F));
}

TEST(Epsilon, IsAddedToTheMeanOfSquaresOrTheVariance) {
  EXPECT_THAT(normalised({.kind = "llama", .epsilon = 0.5}),
              near({1, 2, 3, 4}, 1 / std::sqrt(7.5F + 0.5F)));
  EXPECT_THAT(normalised({.kind = "llama"}), near({1, 2, 3, 4}, 1 / std::sqrt(7.5F + 1e-5F)));
  EXPECT_THAT(normalised({.kind = "gpt", .epsilon = 0.5}),
              near({-1.5, -0.5, 0.5, 1.5}, 1 / std::sqrt(1.25F + 0.5F)));
  EXPECT_THAT(normalised({.kind = "gpt"}),
              near({-1.5, -0.5, 0.5, 1.5}, 1 / std::sqrt(1.25F + 1e-5F)));
}

/// The values that a block of gpt adds to its stream if its MLP passes on activation(1).
float activated(ModelActivation activation) {
  const auto device = make_cpu_device(1);
  BoundModel bound(*device, make_gpt({.kind = "gpt",
                                      .layers = 1,
                                      .heads = 1,
                                      .width = 1,
                                      .context = 1,
                                      .activation = activation,
                                      .vocabulary = 2},
                                     *device));
  const std::vector<float> none(4, 0);
  set(bound, 1, "attention.out.weight", {0});
  set(bound, 1, "attention.out.bias", {0});
  set(bound, 1, "mlp.in.weight", none);
  set(bound, 1, "mlp.in.bias", {1, 1, 1, 1});
  set(bound, 1, "mlp.out.weight", {0.25, 0.25, 0.25, 0.25});
  set(bound, 1, "mlp.out.bias", {0});
  const Tensor stream = upload(*device, {3}, {1, 1, 1});
  return download(testing::forward_of(*bound.model.units[1], stream, evaluation))[0] - 3;
}

TEST(ActivationKey, IsThatOfTheMlp) {
  EXPECT_NEAR(activated(ModelActivation::relu), 1, 1e-6);
  EXPECT_NEAR(activated(ModelActivation::gelu), 0.8413447, 1e-6);
  EXPECT_NEAR(activated(ModelActivation::gelu_tanh), 0.8411920, 1e-6);
  EXPECT_NEAR(activated(ModelActivation::tanh), 0.7615942, 1e-6);
  EXPECT_EQ(activated(ModelActivation::published), activated(ModelActivation::gelu_tanh));
}

/// The logits of a model with its initial values.
std::vector<float> logits_of(const ModelConfig& config) {
  const auto device = make_cpu_device(1);
  BoundModel bound(*device, make_model(config, *device));
  const Tensor x = input_of(config, bound.model, *device, 2, 3);
  return download(testing::MicroBatch(bound.model).forward(bound.model, x, evaluation));
}

TEST(Defaults, AreWhatTheyStandForToTheBit) {
  for (Case one : cases()) {
    if (completed(one.config).epsilon == 0) continue;
    SCOPED_TRACE(one.name);
    one.config.epsilon = 0;
    one.config.activation = ModelActivation::published;
    const auto logits = logits_of(one.config);
    ModelConfig said = completed(one.config);
    EXPECT_NE(said, one.config);
    EXPECT_EQ(completed(said), said);
    EXPECT_EQ(logits_of(said), logits);
    said.epsilon = 0.1;
    EXPECT_NE(logits_of(said), logits);
    said.epsilon = 0;
    for (const ModelActivation activation : {ModelActivation::tanh, ModelActivation::gelu}) {
      if (!has_activation(said.kind, activation) || activation == completed(one.config).activation)
        continue;
      said.activation = activation;
      EXPECT_NE(logits_of(said), logits) << name_of(activation);
    }
  }
}

TEST(Defaults, MakeAPresetKnownHoweverItIsWritten) {
  ModelConfig llama = find_preset("llama3.1-8b").config;
  llama.epsilon = 1e-5;
  llama.activation = ModelActivation::silu;
  ASSERT_NE(preset_of(llama), nullptr);
  EXPECT_EQ(preset_of(llama)->name, "llama3.1-8b");
  llama.epsilon = 1e-6;
  EXPECT_EQ(preset_of(llama), nullptr);
}

TEST(Defaults, OtherValuesAreRefused) {
  const auto device = make_cpu_device(1);
  const auto refused = [&](const ModelConfig& config) {
    return complaint([&] { make_model(config, *device); });
  };
  const std::string range = " is out of range; it has to be 1e-37 to 1, or 0";
  for (const ModelInfo& model : models()) {
    if (model.epsilon == 0) continue;
    const std::string kind(model.name);
    EXPECT_EQ(refused({.kind = kind, .epsilon = -1}), "model.epsilon = -1" + range) << kind;
    EXPECT_EQ(refused({.kind = kind, .epsilon = 1e-40}), "model.epsilon = 1e-40" + range) << kind;
    EXPECT_EQ(refused({.kind = kind, .epsilon = NAN}), "model.epsilon = nan" + range) << kind;
  }
  EXPECT_EQ(refused({.kind = "llama", .activation = ModelActivation::relu}),
            "model.activation = 'relu': the MLP of 'llama' does not have it; choose auto or silu");
  for (const char* kind : {"gpt", "bert", "t5"})
    EXPECT_EQ(
        refused({.kind = kind, .activation = ModelActivation::silu}),
        fmt::format("model.activation = 'silu': the MLP of '{}' does not have it; choose auto, "
                    "relu, gelu, gelu_tanh or tanh",
                    kind));
}

}  // namespace
}  // namespace ringside
