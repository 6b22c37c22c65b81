// FirstNotFinite: the unit at which a loss that is not finite began, whichever stage has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/models/model.h"
#include "core/scheme/rank_context.h"
#include "core/train/unit_outputs.h"

namespace ringside {

/// In a pipeline the rank that meets such a loss has the last units alone, and what they got may
/// have been spoiled before. The ranks of the other stages therefore leave a note in the run's
/// store at the end of a step with such an output. For the thread that trains.
class FirstNotFinite {
 public:
  /// The arguments outlive this object. `outputs` are those of the model's units.
  FirstNotFinite(const RankContext& context, const Model& model, const UnitOutputs& outputs)
      : context_(context), model_(model), outputs_(outputs) {}

  /// At the end of every step: leaves the note of a rank without losses, if it has one. Without a
  /// pipeline it does nothing.
  void tell(std::int64_t step) const;
  /// Names the unit of the whole model whose output was the first that was not finite, for instance
  /// "the output of unit block.3 is the first that is not finite". Where the value came from
  /// another stage, waits for the note of its rank, at most some seconds: that rank ends its step
  /// soon after this one.
  std::string text(std::int64_t step) const;

 private:
  struct Place {
    std::size_t unit = 0;  // of the whole model
    int stage = 0;
    bool begins_stage = false;
    std::string name{};
  };
  std::optional<Place> own() const;
  /// What the rank of this stage has found.
  std::optional<Place> told(std::int64_t step, int stage) const;
  std::string key(std::int64_t step, int rank) const;

  const RankContext& context_;
  const Model& model_;
  const UnitOutputs& outputs_;
};

}  // namespace ringside
