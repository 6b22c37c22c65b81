// Comparison of plans: which runs repeat each other, and which must end with equal bits.
#pragma once

#include <string_view>

#include "core/plan/run_plan.h"

namespace ringside {

/// The scheme that all others are compared with: one rank that does all the work.
inline constexpr std::string_view reference_scheme = "single";

/// Whether one run repeats the other: the plans differ at most in id, repeat, line, place and save.
bool same_case(const RunPlan& a, const RunPlan& b);

/// Whether both runs train the same model on the same data with the same numbers, so that they may
/// differ only in the order of their sums and in their learning rate: both stand in RunPlan::sums.
/// Runs with the same training and equal sums must end with equal bits.
bool same_training(const RunPlan& a, const RunPlan& b);

/// Whether `single` is not the definition of the plan's scheme: the scheme brings its own, or has
/// none (lacks_definition()).
inline bool has_own_definition(const RunPlan& plan) {
  return plan.promise != Promise::same_run || plan.sums.own_order;
}

/// Whether nobody says what the run has to compute: the user's code in another program comes
/// without a definition.
inline bool lacks_definition(const RunPlan& plan) {
  return plan.program && plan.program->definition == DefinedBy::nobody;
}

/// Whether `run` must end with the bits of `definition`. For a scheme with an algorithm of its own,
/// or with an order of sums of its own, `definition` is then the run of the scheme's definition for
/// the world of `run`, on the same hosts; for all others it is a run of `single` that adds up the
/// same micro-batches in the same order. (Schemes with servers have no definition of their own for
/// train.reduce = "every" and several micro-batches: there the runs agree to rounding only.) A run
/// with an unknown order of sums (SumTree::unknown_order) must equal none. Where another program
/// runs both, they are of the same files of the user's.
bool must_equal(const RunPlan& run, const RunPlan& definition);

/// Whether `run`, which promises the same run as `single`, must agree with `single` to rounding
/// because both differ in the order of their sums alone.
bool equals_to_rounding(const RunPlan& run, const RunPlan& single);

}  // namespace ringside
