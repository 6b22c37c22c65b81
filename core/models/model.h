// A model: a list of units.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/models/model_config.h"
#include "core/nn/unit.h"

namespace ringside {

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
    // Of each unit: its number, the position of its first parameter in the model's order, the
    // number of parameters (tensors) before it, and that of values of running statistics.
    std::vector<std::size_t> units{};
    std::vector<std::int64_t> first_parameters{};
    std::vector<std::size_t> first_tensors{};
    std::vector<std::int64_t> first_statistics{};
    std::vector<std::size_t> stages{};  // the unit, of this part, with which each stage begins
    /// The units of other parts whose tables units of this part read (Unit::lender). They are never
    /// bound.
    std::vector<std::unique_ptr<Unit>> lenders{};
    // Of the whole model.
    std::size_t all_units = 0;
    std::int64_t all_parameters = 0;
    std::size_t all_tensors = 0;
  };
  std::optional<Part> part{};

  /// Units, ascending, whose gradients are complete at other times than those of the unit before:
  /// a stage begins there, or the unit before waits for a table (core/pipeline/table_places.h). The
  /// whole model has them where it defines a run of stages (SumTree::borders).
  std::vector<std::size_t> gradient_borders{};
  /// Whether what is sent at once must not have gradients of both the unit and the one before it.
  /// True for the first unit.
  bool divides_gradients(std::size_t unit) const;
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
