#include "core/models/model.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <span>

#include "core/base/error.h"
#include "core/base/processor.h"
#include "core/device/write_values.h"
#include "core/models/models.h"
#include "core/num/random.h"

namespace ringside {
namespace {

float initial_value(const Init& init, std::uint64_t seed, std::uint64_t position) {
  switch (init.kind) {
    case Init::Kind::constant:
      return init.value;
    case Init::Kind::normal:
      return static_cast<float>(random_normal(seed, Stream::parameters, position)) * init.value;
    case Init::Kind::uniform:
      return static_cast<float>(2 * random_uniform(seed, Stream::parameters, position) - 1) *
             init.value;
  }
  throw Error("unknown kind {} of initial value", static_cast<int>(init.kind));
}

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

constexpr std::int64_t piece_elements = 1 << 16;

/// A range of one parameter; its first element has `position` in the model.
struct Piece {
  const Init* init;
  std::uint64_t position;
  Tensor out;
};

void draw(Device& device, std::uint64_t seed, const Piece& piece) {
  std::vector<float> values(static_cast<std::size_t>(piece.out.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = initial_value(*piece.init, seed, piece.position + i);
  write_values(device, piece.out, values);
}

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

std::int64_t Model::parameter_count() const { return first_parameter(units.size()); }

std::int64_t Model::first_parameter(std::size_t unit) const {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < unit; ++i) first += units[i]->layout().count();
  return first;
}

bool Model::begins_stage(std::size_t unit) const {
  return unit == 0 || (part && std::ranges::binary_search(part->stages, unit));
}

std::optional<std::size_t> Model::lender_of(std::size_t unit) const {
  const Unit* lender = units[unit]->lender();
  for (std::size_t u = 0; lender && u < unit; ++u)
    if (units[u].get() == lender) return u;
  return {};
}

std::int64_t Model::input_bytes() const {
  return input.count() * static_cast<std::int64_t>(size_of(input_dtype(task)));
}

std::int64_t Model::logits_per_sample() const {
  std::int64_t count = 0;
  for (const LossTerm& term : terms) count += term.rows * term.classes;
  return count;
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

void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out) {
  const std::int64_t end = begin + out.count();
  if (begin < 0 || end > unit.layout().count())
    throw Error(
        "unit {}: there are no initial values for the range [{}, {}), which is not inside the "
        "unit; the unit has {} elements",
        unit.name(), begin, end, unit.layout().count());
  if (!unit.device().has_values()) return;
  std::vector<Piece> pieces;
  for (const Parameter& parameter : unit.layout().parameters()) {
    const std::int64_t stop = std::min(end, parameter.begin + parameter.shape.count());
    for (std::int64_t at = std::max(begin, parameter.begin); at < stop; at += piece_elements)
      pieces.push_back({&parameter.init, static_cast<std::uint64_t>(first_parameter + at),
                        out.range(at - begin, std::min(piece_elements, stop - at))});
  }
  // Values are independent of each other, so threads draw them: one core would take half a minute
  // for a large model.
  std::atomic<std::size_t> next = 0;
  const auto draw_some = [&] {
    for (std::size_t i; (i = next++) < pieces.size();) draw(unit.device(), seed, pieces[i]);
  };
  std::vector<std::future<void>> others;
  const auto threads = std::min<std::size_t>(static_cast<std::size_t>(allowed_cores().value_or(1)),
                                             pieces.size() / 4);
  for (std::size_t t = 1; t < threads; ++t)
    others.push_back(std::async(std::launch::async, draw_some));
  draw_some();
  for (auto& other : others) other.get();
}

}  // namespace ringside
