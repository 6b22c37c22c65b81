// A model: a list of units.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/data/dataset.h"
#include "core/nn/unit.h"

namespace ringside {

/// The [model] table of an experiment file. What a kind makes of each field stands in its file.
struct ModelConfig {
  std::string kind = "gpt";
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  std::int64_t context = 128;
  std::int64_t vocabulary = 256;
};

template <class Visitor>
void visit_fields(ModelConfig& c, Visitor&& v) {
  v("kind", c.kind, "which model (see `ringside list`)");
  v("layers", c.layers, "transformer blocks, or hidden layers of an MLP");
  v("heads", c.heads, "attention heads; they must divide the width");
  v("width", c.width, "size of the hidden state");
  v("context", c.context, "tokens that the model looks at");
  v("vocabulary", c.vocabulary, "number of different tokens (bytes: 256)");
}

/// Throws Error that names the first size below 1.
void check_positive(const ModelConfig& config);

/// One term of the loss: the mean cross-entropy of a sample's `rows` rows of logits, `classes`
/// each.
struct LossTerm {
  std::int64_t rows = 1;
  std::int64_t classes = 0;
};

/// Units are computed first to last in forward, last to first in backward. The last one gives the
/// logits of B samples: of one term [B rows, classes]; of several flat, term after term. The device
/// must outlive the model.
struct Model {
  std::vector<std::unique_ptr<Unit>> units;
  Task task = Task::every_token;
  std::vector<LossTerm> terms;

  /// Parameters of the whole model, and of the units before `unit`: the position of a unit's
  /// first parameter in the model's order.
  std::int64_t parameter_count() const;
  std::int64_t first_parameter(std::size_t unit) const;
  /// Elements of logits that a sample has.
  std::int64_t logits_per_sample() const;
};

/// Writes the initial values of elements [begin, begin + out.count()) of the unit's range to
/// `out`, which may be any part of it: a value depends on the seed and on its position in the
/// model alone, rounded where `out` has 16 bits. `first_parameter` is the unit's position in the
/// model's order. Nothing is drawn for a device without values.
void initialise(const Unit& unit, std::int64_t first_parameter, std::uint64_t seed,
                std::int64_t begin, const Tensor& out);

}  // namespace ringside
