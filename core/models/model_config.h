// The [model] table of an experiment file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"
#include "core/base/options.h"

namespace ringside {

/// The data set whose images a model was published for. It decides the first layers of a ResNet and
/// the width of the linear layers of a VGG.
enum class StemShape : std::uint8_t { imagenet, cifar };
inline constexpr std::string_view stem_names[] = {"imagenet", "cifar"};
constexpr EnumNames names_of(StemShape) { return stem_names; }

/// The activation of the hidden elements of an MLP.
enum class ModelActivation : std::uint8_t {
  published,  // the one with which the kind of model was published
  relu,
  gelu,       // x times the normal distribution function of x
  gelu_tanh,  // its approximation by tanh (Hendrycks 2016)
  tanh,
  silu
};
inline constexpr std::string_view activation_names[] = {"auto",      "relu", "gelu",
                                                        "gelu_tanh", "tanh", "silu"};
constexpr EnumNames names_of(ModelActivation) { return activation_names; }

/// ModelInfo::options of all kinds of models that have some.
std::vector<Options> default_own_options();

/// The [model] table of an experiment file. The header of each kind of model says what the fields
/// mean for that kind.
struct ModelConfig {
  std::string kind = "gpt";
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  std::int64_t context = 128;
  std::int64_t target_context = 0;
  std::int64_t positions = 0;
  std::int64_t hidden = 0;
  double epsilon = 0;
  ModelActivation activation = ModelActivation::published;
  std::int64_t vocabulary = 256;
  bool tied = false;
  double dropout = 0;
  std::int64_t masked = 20;
  std::int64_t segments = 2;
  std::int64_t image = 32;
  std::int64_t channels = 3;
  std::int64_t classes = 10;
  std::int64_t filters = 64;
  StemShape stem = StemShape::cifar;
  std::int64_t batch_norm_group = 1;
  /// Keys that only one kind of model has, in a struct next to that model. Every [model] has those
  /// of all kinds, so that cases of an experiment may differ in their kind.
  std::vector<Options> own_options = default_own_options();

  /// The struct of this type among `own_options`. Throws Error if no kind of model has such
  /// options.
  template <HasFields Own>
  const Own& own() const {
    return own_of<Own>(own_options);
  }
  template <HasFields Own>
  Own& own() {
    return const_cast<Own&>(std::as_const(*this).own<Own>());
  }
  /// The same config with other own options.
  template <HasFields Own>
  ModelConfig with(Own options) const {
    ModelConfig out = *this;
    out.own<Own>() = std::move(options);
    return out;
  }

  bool operator==(const ModelConfig&) const = default;
};

/// The keys in the order of files and lists: those of all kinds, then each kind's own.
Fields fields_of(ModelConfig& config);

/// Throws Error if a field that `sizes` names is below 1, or if any size in `config` is so large
/// that the number of bytes of a model or of its optimizer could overflow. The error names the
/// field.
void check_sizes(const ModelConfig& config, std::initializer_list<std::string_view> sizes);
/// Throws Error unless `dropout` lies in [0, 1), also after rounding to fp32, which kernels use.
void check_dropout(const ModelConfig& config);
/// Throws Error as check_sizes() and check_dropout() do. Also throws Error if the number of heads
/// does not divide the width, or if the context is longer than the table of positions.
void check_transformer(const ModelConfig& config);
/// The number of rows of the table of positions.
inline std::int64_t rows_of_positions(const ModelConfig& config) {
  return config.positions == 0 ? config.context : config.positions;
}
/// Throws Error as check_sizes() does for the sizes of image models.
void check_images(const ModelConfig& config);

}  // namespace ringside
