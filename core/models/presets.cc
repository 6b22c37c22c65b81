#include "core/models/presets.h"

#include <string>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/models/model_defaults.h"

namespace ringside {
namespace {

constexpr std::string_view he = "He et al. 2016, v1.5, as in torchvision";
constexpr std::string_view xie = "Xie et al. 2017, as in torchvision";
constexpr std::string_view he_cifar = "the same for CIFAR: 3x3 stem without pool, 10 classes";
constexpr std::string_view radford = "Radford et al. 2019";
constexpr std::string_view touvron = "Touvron et al. 2023";
constexpr std::string_view grattafiori = "Grattafiori et al. 2024";
constexpr std::string_view raffel = "Raffel et al. 2020, version 1.0";
constexpr std::string_view meta = "Meta 2024, trained as Llama 3.1";

ModelConfig resnet(std::int64_t layers) {
  return {.kind = "resnet",
          .layers = layers,
          .image = 224,
          .classes = 1000,
          .stem = StemShape::imagenet};
}

ModelConfig resnext(std::int64_t layers, std::int64_t groups, std::int64_t group_width) {
  ModelConfig config = resnet(layers);
  config.groups = groups;
  config.group_width = group_width;
  return config;
}

ModelConfig resnet_cifar(std::int64_t layers) {
  return {.kind = "resnet", .layers = layers, .image = 32, .classes = 10, .stem = StemShape::cifar};
}

ModelConfig gpt(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t context) {
  return {.kind = "gpt",
          .layers = layers,
          .heads = heads,
          .width = width,
          .context = context,
          .positions = context,
          .vocabulary = 50257,
          .tied = true};
}

ModelConfig bert(std::int64_t layers, std::int64_t heads, std::int64_t width) {
  return {.kind = "bert",
          .layers = layers,
          .heads = heads,
          .width = width,
          .context = 512,
          .positions = 512,
          .vocabulary = 30522,
          .dropout = 0.1,
          .masked = 76};  // 15% of 512
}

ModelConfig llama(std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                  std::int64_t width, std::int64_t hidden) {
  return {.kind = "llama",
          .layers = layers,
          .heads = heads,
          .width = width,
          .context = 4096,
          .kv_heads = kv_heads,
          .hidden = hidden,
          .vocabulary = 32000};
}

ModelConfig llama3(std::int64_t layers, std::int64_t heads, std::int64_t width, std::int64_t hidden,
                   double rope_factor, bool tied) {
  ModelConfig config = llama(layers, heads, 8, width, hidden);
  config.context = 8192;
  config.rope_base = 500000;
  config.rope_factor = rope_factor;
  config.vocabulary = 128256;
  config.tied = tied;
  return config;
}

/// HuggingFaceTB/SmolVLM-Instruct: SigLIP's vision transformer with 400M parameters, and SmolLM2
/// with 1.7B as the decoder, with three more tokens and a head of its own. Its context has 16384
/// positions; here the 81 visual tokens of one image and the text make 1024. Any other text is the
/// same model.
ModelConfig smolvlm() {
  return {.kind = "idefics3",
          .layers = 24,
          .heads = 32,
          .width = 2048,
          .context = 943,
          .kv_heads = 32,
          .hidden = 8192,
          .rope_base = 273768,
          .vocabulary = 49155,
          .image = 384,
          .patch = 14,
          .shuffle = 3,
          .vision_layers = 27,
          .vision_heads = 16,
          .vision_width = 1152,
          .vision_hidden = 4304};
}

/// Samples are as long as in its pre-training: a source of 512 tokens, and a target of 114.
ModelConfig t5(std::int64_t layers, std::int64_t heads, std::int64_t head_width, std::int64_t width,
               std::int64_t hidden) {
  return {.kind = "t5",
          .layers = layers,
          .heads = heads,
          .width = width,
          .context = 512,
          .target_context = 114,
          .head_width = head_width,
          .hidden = hidden,
          .vocabulary = 32128,
          .dropout = 0.1};
}

std::vector<Preset> make() {
  ModelConfig vgg = resnet(16), vgg_cifar = resnet_cifar(16);
  vgg.kind = vgg_cifar.kind = "vgg";
  vgg.dropout = vgg_cifar.dropout = 0.5;
  const ModelConfig alexnet{
      .kind = "alexnet", .dropout = 0.5, .image = 224, .classes = 1000, .filters = 64};
  const ModelConfig inception{.kind = "inception",
                              .layers = 48,
                              .dropout = 0.5,
                              .image = 299,
                              .classes = 1000,
                              .filters = 32};
  return {
      {"resnet-18", he, resnet(18), 11'689'512},
      {"resnet-34", he, resnet(34), 21'797'672},
      {"resnet-50", he, resnet(50), 25'557'032},
      {"resnet-101", he, resnet(101), 44'549'160},
      {"resnet-152", he, resnet(152), 60'192'808},
      {"resnext-50-32x4d", xie, resnext(50, 32, 4), 25'028'904},
      {"resnext-101-32x8d", xie, resnext(101, 32, 8), 88'791'336},
      {"resnet-18-cifar", he_cifar, resnet_cifar(18), 11'173'962},
      {"resnet-34-cifar", he_cifar, resnet_cifar(34), 21'282'122},
      {"resnet-50-cifar", he_cifar, resnet_cifar(50), 23'520'842},
      {"resnet-101-cifar", he_cifar, resnet_cifar(101), 42'512'970},
      {"resnet-152-cifar", he_cifar, resnet_cifar(152), 58'156'618},
      {"vgg-16", "Simonyan and Zisserman 2015, as in torchvision", vgg, 138'357'544},
      {"vgg-16-cifar", "the same for CIFAR: classifier of width 512, 10 classes", vgg_cifar,
       15'245'130},
      {"alexnet", "Krizhevsky 2014, as in torchvision", alexnet, 61'100'840},
      {"inception-v3", "Szegedy et al. 2016, as in torchvision without auxiliary classifier",
       inception, 23'834'568},
      {"bert-base", "Devlin et al. 2018, uncased", bert(12, 12, 768), 110'106'428, 109'482'240},
      {"bert-large", "Devlin et al. 2018, uncased", bert(24, 16, 1024), 336'226'108, 335'141'888},
      {"gpt2", radford, gpt(12, 12, 768, 1024), 124'439'808},
      {"gpt2-medium", radford, gpt(24, 16, 1024, 1024), 354'823'168},
      {"gpt2-large", radford, gpt(36, 20, 1280, 1024), 774'030'080},
      {"gpt2-xl", radford, gpt(48, 25, 1600, 1024), 1'557'611'200},
      {"gpt-2b", "Ren et al. 2021 (ZeRO-Offload)", gpt(40, 16, 2048, 1024), 2'119'358'464},
      {"gpt-8b", "Shoeybi et al. 2019 (Megatron-LM)", gpt(72, 32, 3072, 1024), 8'314'143'744},
      // The paper prints a width of 5140, but its 40 heads of 128 make 5120.
      {"gpt3-13b", "Brown et al. 2020", gpt(40, 40, 5120, 2048), 12'853'386'240},
      {"gpt3-175b", "Brown et al. 2020", gpt(96, 96, 12288, 2048), 174'604'259'328},
      {"llama2-7b", touvron, llama(32, 32, 32, 4096, 11008), 6'738'415'616},
      {"llama2-13b", touvron, llama(40, 40, 40, 5120, 13824), 13'015'864'320},
      {"llama2-70b", touvron, llama(80, 64, 8, 8192, 28672), 68'976'648'192},
      {"llama3.2-1b", meta, llama3(16, 32, 2048, 8192, 32, true), 1'235'814'400},
      {"llama3.2-3b", meta, llama3(28, 24, 3072, 8192, 32, true), 3'212'749'824},
      {"llama3.1-8b", grattafiori, llama3(32, 32, 4096, 14336, 8, false), 8'030'261'248},
      {"llama3.1-70b", grattafiori, llama3(80, 64, 8192, 28672, 8, false), 70'553'706'496},
      {"llama3.1-405b", grattafiori, llama3(126, 128, 16384, 53248, 8, false), 405'853'388'800},
      {"smolvlm-2b", "Marafioti et al. 2025, SmolVLM-Instruct", smolvlm(), 2'246'272'880},
      {"t5-small", raffel, t5(6, 8, 64, 512, 2048), 60'506'624},
      {"t5-base", raffel, t5(12, 12, 64, 768, 3072), 222'903'552},
      {"t5-large", raffel, t5(24, 16, 64, 1024, 4096), 737'668'096},
      {"t5-3b", raffel, t5(24, 32, 128, 1024, 16384), 2'851'598'336},
      {"t5-11b", raffel, t5(24, 128, 128, 1024, 65536), 11'307'321'344},
  };
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = make();
  return all;
}

const Preset* preset_of(const ModelConfig& config) {
  for (const Preset& preset : presets()) {
    ModelConfig published = preset.config;
    published.dropout = config.dropout;
    published.batch_norm_group = config.batch_norm_group;
    published.masked = config.masked;
    // Shorter samples are the same model where the table of positions stays, or where there is
    // none.
    if (published.positions != 0 || published.kind == "llama" || published.kind == "idefics3" ||
        published.kind == "t5") {
      published.context = config.context;
      published.target_context = config.target_context;
    }
    if (published.kind == "idefics3") published.classes = config.classes;  // of synthetic captions
    if (completed(published) == completed(config)) return &preset;
  }
  return nullptr;
}

const Preset& find_preset(std::string_view name) {
  std::vector<std::string> known;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset;
    known.emplace_back(preset.name);
  }
  throw Error("unknown model.preset '{}'; did you mean '{}'? There are: {}", name,
              nearest(name, known), fmt::join(known, ", "));
}

}  // namespace ringside
