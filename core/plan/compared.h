// The role of a run in a comparison: its purpose, its promise, and the run that it must equal.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"

namespace ringside {

/// The purpose of a run.
enum class Purpose : std::uint8_t {
  asked,      // the run is compared
  reference,  // other runs must equal this run, which is made only once, before all others; its
              // speed is not compared
  all_cores,  // `single` with the threads of all ranks of the largest world, at most one per core
  timing,     // the run belongs to no comparison: its ranks time what they compute
  links,      // likewise; its ranks, one on each host, time the network between them
  bench       // likewise; its ranks train nothing, and do what `ringside bench` tells them
};
inline constexpr std::string_view purpose_names[] = {"asked",  "reference", "all cores",
                                                     "timing", "links",     "bench"};
constexpr EnumNames names_of(Purpose) { return purpose_names; }

/// The order in which a run adds up the gradients of a step: first those of `micro_batches`
/// micro-batches within each of `groups` groups, then the sums of the groups. A tree with one
/// group, or with one micro-batch in each group, is a plain sequence, and is stored as one group of
/// all micro-batches (unless train.reduce_precision converts gradients between the two sums).
/// Micro-batches whose batch norms share their statistics count as one larger
/// micro-batch, which they equal up to rounding. Runs of one experiment with equal trees and equal
/// learning rates must end with equal bits.
///
/// Where workers have different shares of a step (train.shares), `samples` has the size of the
/// micro-batches of each worker; otherwise it is empty.
///
/// With `own_order` the scheme adds up otherwise: in the order of an algorithm of collectives,
/// within groups of workers and then across them, or (`each_micro_batch`) over ranks after every
/// micro-batch. Only the scheme's own definition has the same order then. `groups` is the world.
/// If that order follows from what is sent at once, stages of a pipeline divide what a whole model
/// sends together, and their definition must do so too: `borders` has the units before which they
/// do (Model::gradient_borders); otherwise it is empty.
/// With `unknown_order` a library adds up in an unknown order: losses agree with those of `single`
/// to rounding.
struct SumTree {
  std::int64_t groups = 1;
  std::int64_t micro_batches = 1;
  double lr = 0;  // scaled to the number of ranks
  bool own_order = false;
  bool unknown_order = false;
  bool each_micro_batch = false;
  std::vector<std::int64_t> samples{};
  std::vector<std::int64_t> borders{};
  bool operator==(const SumTree&) const = default;
};

/// The order in which a run adds up gradients: that of `single`; one of the scheme's own
/// (SumTree::own_order), which may also follow from what is sent at once; or one that a library
/// chooses (SumTree::unknown_order).
enum class SumOrder : std::uint8_t { of_single, own, own_by_messages, unknown };

/// The promise of a scheme about its results.
enum class Promise : std::uint8_t {
  same_run,       // the same training run as `single` over the same micro-batches
  own_algorithm,  // an algorithm of the scheme's own, whose losses may differ
  /// An algorithm of the scheme's own whose results depend on the times of messages: its definition
  /// repeats the recorded order of a run (core/plan/history.h).
  replayed
};
inline constexpr std::string_view promise_names[] = {"same run", "own algorithm", "replayed"};
constexpr EnumNames names_of(Promise) { return promise_names; }

}  // namespace ringside
