// Named models have exactly as many parameters as the literature says.
#include "core/models/presets.h"

#include <map>

#include "core/base/error.h"
#include "core/device/sim/sim_device.h"
#include "tests/models/cases.h"
#include "tests/support/small_cluster.h"

namespace ringside {
namespace {

std::int64_t count_of(const Model& model, const std::vector<std::string>& left_out = {}) {
  std::int64_t count = 0;
  for (const auto& unit : model.units)
    for (const Parameter& p : unit->layout().parameters())
      if (std::find(left_out.begin(), left_out.end(), p.name) == left_out.end())
        count += p.shape.count();
  return count;
}

TEST(Presets, HaveTheNumberOfParametersOfTheLiterature) {
  const std::map<std::string_view, std::int64_t> literature = {{"resnet-18", 11'689'512},
                                                               {"resnet-34", 21'797'672},
                                                               {"resnet-50", 25'557'032},
                                                               {"resnet-101", 44'549'160},
                                                               {"resnet-152", 60'192'808},
                                                               {"resnext-50-32x4d", 25'028'904},
                                                               {"resnext-101-32x8d", 88'791'336},
                                                               {"resnet-18-cifar", 11'173'962},
                                                               {"resnet-34-cifar", 21'282'122},
                                                               {"resnet-50-cifar", 23'520'842},
                                                               {"resnet-101-cifar", 42'512'970},
                                                               {"resnet-152-cifar", 58'156'618},
                                                               {"vgg-16", 138'357'544},
                                                               {"vgg-16-cifar", 15'245'130},
                                                               {"alexnet", 61'100'840},
                                                               {"inception-v3", 23'834'568},
                                                               {"bert-base", 110'106'428},
                                                               {"bert-large", 336'226'108},
                                                               {"gpt2", 124'439'808},
                                                               {"gpt2-medium", 354'823'168},
                                                               {"gpt2-large", 774'030'080},
                                                               {"gpt2-xl", 1'557'611'200},
                                                               {"gpt-2b", 2'119'358'464},
                                                               {"gpt-8b", 8'314'143'744},
                                                               {"gpt3-13b", 12'853'386'240},
                                                               {"gpt3-175b", 174'604'259'328},
                                                               {"llama2-7b", 6'738'415'616},
                                                               {"llama2-13b", 13'015'864'320},
                                                               {"llama2-70b", 68'976'648'192},
                                                               {"llama3.2-1b", 1'235'814'400},
                                                               {"llama3.2-3b", 3'212'749'824},
                                                               {"llama3.1-8b", 8'030'261'248},
                                                               {"llama3.1-70b", 70'553'706'496},
                                                               {"llama3.1-405b", 405'853'388'800},
                                                               {"smolvlm-2b", 2'246'272'880},
                                                               {"t5-small", 60'506'624},
                                                               {"t5-base", 222'903'552},
                                                               {"t5-large", 737'668'096},
                                                               {"t5-3b", 2'851'598'336},
                                                               {"t5-11b", 11'307'321'344}};
  // A simulated device stores no values, so even the largest models are built quickly.
  const auto device = sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr);
  for (const Preset& preset : presets()) {
    const Model model = make_model(preset.config, *device);
    const auto expected = literature.find(preset.name);
    ASSERT_NE(expected, literature.end()) << preset.name;
    EXPECT_EQ(model.parameter_count(), expected->second) << preset.name;
    EXPECT_EQ(preset.parameters, expected->second) << preset.name;
    EXPECT_LT(device->ledger().current().total(), 2 << 20) << preset.name;  // running statistics
  }
  EXPECT_EQ(presets().size(), literature.size());
}

TEST(Presets, OfBertHaveTheEncoderOfTheLiterature) {
  const auto device = sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr);
  const std::map<std::string_view, std::int64_t> literature = {{"bert-base", 109'482'240},
                                                               {"bert-large", 335'141'888}};
  for (const auto& [name, count] : literature) {
    const Preset& preset = find_preset(name);
    EXPECT_EQ(preset.encoder, count);
    EXPECT_EQ(count_of(make_model(preset.config, *device),
                       {"follows.weight", "follows.bias", "transform.weight", "transform.bias",
                        "tokens.bias"}) -
                  2 * preset.config.width,  // the norm of the head
              count);
  }
}

/// The decoder is SmolLM2-1.7B, which has 1,711,376,384 parameters with 49152 tokens and a tied
/// head; the vision transformer is SigLIP's without its pooling head.
TEST(Presets, OfSmolVlmHaveThePartsOfTheLiterature) {
  const auto device = sim::make_sim_device(testing::small_cluster(1), nullptr, {0, 0}, nullptr);
  const Preset& preset = find_preset("smolvlm-2b");
  const Model model = make_model(preset.config, *device);
  std::map<std::string, std::int64_t> parts;
  for (const auto& unit : model.units)
    parts[unit->name().substr(0, unit->name().find('.'))] += unit->layout().count();
  const std::int64_t width = preset.config.width, rows = preset.config.vocabulary * width;
  EXPECT_EQ(parts["patches"] + parts["vision"] + parts["connector"] - 9 * 1152 * width - rows,
            412'987'248);
  EXPECT_EQ(parts["block"] + parts["head"] - rows, 1'711'376'384 - 49152 * width);
}

TEST(Presets, AreFoundByName) {
  EXPECT_EQ(find_preset("gpt2-xl").config.layers, 48);
  try {
    find_preset("resnet50");
    ADD_FAILURE() << "there is no such preset";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean 'resnet-50'?"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace ringside
