// A model: a list of units.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fields.h"
#include "core/base/options.h"
#include "core/data/dataset.h"
#include "core/nn/unit.h"

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

/// One term of the loss: the mean cross-entropy over `rows` rows of `classes` logits in each
/// sample.
struct LossTerm {
  std::int64_t rows = 1;
  std::int64_t classes = 0;
};

/// A value that a unit hands to later units beside its output (core/nn/saved.h): one that a cut
/// between them has to carry.
struct Edge {
  enum class Kind : std::uint8_t {
    data,        // of the input: it has no gradient
    activation,  // whose gradient goes back the same way
    table        // a parameter of the first unit that the last one reads as well (Unit::lender)
  };
  std::string name;
  Kind kind = Kind::activation;
  std::size_t from = 0, last = 0;  // the unit that makes it, and the last unit that reads it
  std::size_t parameter = 0;       // a table's place in the layout of its unit
};

/// Units are computed first to last in forward and last to first in backward. The last unit returns
/// the logits of B samples: [B * rows, classes] if the loss has one term; flat, term after term, if
/// the loss has several terms. The device must outlive the model.
struct Model {
  std::vector<std::unique_ptr<Unit>> units;
  Task task = Task::every_token;
  Shape input{};  // of a sample; its elements have the dtype input_dtype(task)
  std::vector<LossTerm> terms;
  /// What units hand to others beside their outputs; the number of an edge is its place here.
  std::vector<Edge> edges{};

  /// The place of a model in a whole one of which it is a part (core/models/model_part.h).
  struct Part {
    // Of each unit: its number, the position of its first parameter in the model's order, and the
    // number of parameters (tensors) before it.
    std::vector<std::size_t> units{};
    std::vector<std::int64_t> first_parameters{};
    std::vector<std::size_t> first_tensors{};
    std::vector<std::size_t> stages{};  // the unit, of this part, with which each stage begins
    std::vector<Shape> tables{};        // of each edge: the shape of the table, if it is one
    /// The units of other parts whose tables units of this part read (Unit::lender). They are never
    /// bound.
    std::vector<std::unique_ptr<Unit>> lenders{};
    // Of the whole model.
    std::size_t all_units = 0;
    std::int64_t all_parameters = 0;
    std::size_t all_tensors = 0;
  };
  std::optional<Part> part{};

  /// Whether a stage begins with the unit, so that it does not follow the unit before it: what
  /// belongs to several stages is complete at different times.
  bool begins_stage(std::size_t unit) const;
  /// The number of parameters of the whole model.
  std::int64_t whole_count() const { return part ? part->all_parameters : parameter_count(); }

  /// parameter_count(): the number of parameters of all units. first_parameter(): the number of
  /// parameters of the units before this one, which is the position of its first parameter in the
  /// order of this model.
  std::int64_t parameter_count() const;
  std::int64_t first_parameter(std::size_t unit) const;
  /// The position of the unit whose parameters this unit reads as well (Unit::lender), if any.
  std::optional<std::size_t> lender_of(std::size_t unit) const;
  /// Bytes of the input of one sample.
  std::int64_t input_bytes() const;
  /// Number of logits that the model computes for one sample.
  std::int64_t logits_per_sample() const;
};

/// Writes the initial values of elements [begin, begin + out.count()) of the unit's range to `out`,
/// rounded if `out` has 16 bits. A value depends on the seed and on its position in the model
/// alone. `first_parameter` is the position of the unit's first parameter in the model's order.
/// Writes nothing on a device without values.
void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out);

}  // namespace ringside
