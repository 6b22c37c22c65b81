// ParameterComparison: workers compare the parameters that they should hold alike.
#pragma once

#include <cstdint>

#include "core/scheme/scheme.h"

namespace ringside {

/// Finds a worker whose parameters are no longer those of the others, as after a bit of its memory
/// has changed by itself. Each worker hashes what SyncScheme::visit_parameters() shows (XXH3-128 of
/// each unit, 4 bytes a parameter read in fp32), and the hashes are summed over the workers, 32
/// bytes for each; only if they differ, those of every unit follow. What most workers hold, and at
/// least two, is right. A worker that shows no parameters is left out. For schemes whose workers
/// begin every step with the same parameters. In a pipeline the workers of each stage compare
/// theirs.
class ParameterComparison {
 public:
  /// The arguments outlive this object.
  ParameterComparison(const RankContext& context, const Model& model, SyncScheme& scheme)
      : context_(context), model_(model), scheme_(scheme) {}

  /// Whether the workers compare after this step, counted from 0; `saves`: a checkpoint comes next,
  /// which must not have what is wrong.
  bool due_after(std::int64_t step, bool saves) const;
  /// Collective: all workers call it, and the scheme has drained. Blocks. Throws Error on all of
  /// them that names the workers that differ, and the first unit in which they do.
  void compare(std::int64_t steps_done) const;

 private:
  const RankContext& context_;
  const Model& model_;
  SyncScheme& scheme_;
};

}  // namespace ringside
