#include "core/models/model_config.h"

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "core/models/models.h"

namespace ringside {
namespace {

/// The largest allowed value of a size. Within these limits the bytes of every model can be
/// computed without overflow: with 16 bytes for each parameter (gradient, master and moments
/// included) they stay below 2^63. More layers would take minutes to build.
constexpr LargestSize largest[] = {
    {"layers", 1 << 14},     {"heads", 1 << 20},          {"width", 1 << 20},
    {"context", 1 << 24},    {"positions", 1 << 24},      {"hidden", 1 << 22},
    {"vocabulary", 1 << 28}, {"masked", 1 << 24},         {"segments", 1 << 24},
    {"image", 1 << 14},      {"channels", 1 << 14},       {"classes", 1 << 24},
    {"filters", 1 << 14},    {"target_context", 1 << 24},
};

Fields common_fields_of(ModelConfig& config) {
  return {
      {"kind", &config.kind, "which model (see `ringside list`)"},
      {"layers", &config.layers,
       "gpt, llama, bert: transformer blocks; idefics3: those of the decoder; t5: those of the "
       "encoder, and as many of the decoder; mlp: hidden layers; resnet, vgg: the number in the "
       "model's name, as in ResNet-18; inception: 48, or 24 for one block of each kind",
       Range::positive},
      {"heads", &config.heads,
       "gpt, llama, bert, idefics3, t5: attention heads; they must divide the width, unless "
       "head_width is set",
       Range::positive},
      {"width", &config.width, "gpt, llama, bert, idefics3, t5, mlp: size of the hidden state",
       Range::positive},
      {"context", &config.context,
       "gpt, llama, bert, mlp: tokens that the model looks at; idefics3: those of the text, behind "
       "the visual tokens; t5: those of a source",
       Range::positive},
      {"target_context", &config.target_context,
       "t5: tokens of a target; 0 means as many as context", Range::not_negative},
      {"positions", &config.positions,
       "gpt, bert: number of rows of the table of positions, at least context; 0 means as many as "
       "context",
       Range::not_negative},
      {"hidden", &config.hidden,
       "llama, idefics3, t5: hidden elements of the MLP; 0 means 8/3 of width, rounded up to a "
       "multiple of 256; in t5 4 times the width",
       Range::not_negative},
      {"epsilon", &config.epsilon,
       "gpt, llama, bert, idefics3, t5: epsilon of the norms, but for those of idefics3's vision; "
       "0 means 1e-5 in gpt, llama and idefics3, 1e-12 in bert, 1e-6 in t5",
       Range::not_negative},
      {"activation", &config.activation,
       "gpt, bert, t5: activation of the MLP; 'auto' means gelu_tanh in gpt, gelu in bert, relu in "
       "t5; llama, idefics3: silu"},
      {"vocabulary", &config.vocabulary,
       "gpt, llama, bert, idefics3, t5, mlp: number of different tokens; 256 if tokens are bytes",
       Range::positive},
      {"tied", &config.tied,
       "gpt, llama, idefics3: the head's matrix is the embedding's table of tokens"},
      {"dropout", &config.dropout,
       "gpt, bert, t5, vgg, alexnet, inception: share of values that training sets to 0",
       Range::not_negative},
      {"masked", &config.masked,
       "bert: positions of a sample whose tokens are hidden and predicted", Range::positive},
      {"segments", &config.segments, "bert: number of kinds of segments that tokens may belong to",
       Range::positive},
      {"image", &config.image,
       "resnet, vgg, alexnet, inception, idefics3: height and width of an image", Range::positive},
      {"channels", &config.channels,
       "resnet, vgg, alexnet, inception, idefics3: values for each pixel of an image; 3 for colour "
       "images",
       Range::positive},
      {"classes", &config.classes,
       "resnet, vgg, alexnet, inception: number of classes that images may belong to; idefics3: "
       "that of synthetic captions",
       Range::positive},
      {"filters", &config.filters,
       "resnet, vgg, alexnet, inception: channels after the first convolution; 32 in Inception-v3, "
       "64 in "
       "the others",
       Range::positive},
      {"stem", &config.stem,
       "resnet, vgg: 'imagenet' for images of about 224 pixels a side, 'cifar' for small ones"},
      {"batch_norm_group", &config.batch_norm_group,
       "resnet, inception: number of ranks that normalise their micro-batches together; it must "
       "divide the number of all ranks",
       Range::positive}};
}

}  // namespace

Fields fields_of(ModelConfig& config) {
  Fields out = common_fields_of(config);
  for (Options& options : config.own_options)
    for (Field& field : options.fields()) out.push_back(std::move(field));
  return out;
}

void check_sizes(const ModelConfig& config, std::initializer_list<std::string_view> sizes) {
  for (const Field& field : fields_to_read(config)) {
    const auto* value = std::get_if<std::int64_t*>(&field.value);
    if (!value) continue;
    if (**value < 1 && std::find(sizes.begin(), sizes.end(), field.name) != sizes.end())
      throw Error("model.{} = {} is too small; it has to be 1 or more", field.name, **value);
    const auto hold = [&](std::span<const LargestSize> limits) {
      for (const LargestSize& limit : limits)
        if (limit.name == field.name && **value > limit.size)
          throw Error("model.{} = {} is too large; it has to be {} or less", field.name, **value,
                      limit.size);
    };
    hold(largest);
    for (const ModelInfo& model : models()) hold(model.largest);
  }
}

void check_dropout(const ModelConfig& config) {
  if (!(config.dropout >= 0 && static_cast<float>(config.dropout) < 1))
    throw Error(
        "model.dropout = {} is out of range; it has to be 0 or more, and below 1 even after "
        "rounding to fp32",
        config.dropout);
}

void check_transformer(const ModelConfig& config) {
  check_sizes(config, {"layers", "heads", "width", "context", "vocabulary"});
  check_dropout(config);
  if (config.width % config.heads != 0)
    throw Error("model.heads = {} does not divide model.width = {}; choose a divisor", config.heads,
                config.width);
  if (rows_of_positions(config) < config.context)
    throw Error("model.positions = {} is less than model.context = {}; raise it, or set it to 0",
                config.positions, config.context);
}

void check_images(const ModelConfig& config) {
  check_sizes(config, {"image", "channels", "classes", "filters", "batch_norm_group"});
}

}  // namespace ringside
