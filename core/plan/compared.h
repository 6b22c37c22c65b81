// The role of a run in a comparison: its purpose, its promise, and the run that it must equal.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"

namespace ringside {

/// The purpose of a run.
enum class Purpose : std::uint8_t {
  asked,      // the run is compared
  reference,  // other runs must equal this run, which is made only once, before all others; its
              // speed is not compared
  all_cores,  // `single` with the threads of all ranks of the largest world, at most one per core
  timing,     // the run belongs to no comparison: its ranks time what they compute
  links       // nor does this one: its ranks, one on each host, time the network between them
};
inline constexpr std::string_view purpose_names[] = {"asked", "reference", "all cores", "timing",
                                                     "links"};
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
  bool operator==(const SumTree&) const = default;
};

/// The order in which a run adds up gradients: that of `single`; one of the scheme's own
/// (SumTree::own_order); or one that a library chooses (SumTree::unknown_order).
enum class SumOrder : std::uint8_t { of_single, own, unknown };

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

/// The held-out loss to which a comparison measures the time of each run.
enum class TargetKind : std::uint8_t {
  none,
  number,  // RunPlan::target_loss
  single   // what `single` with the same training reaches at the end
};
inline constexpr std::string_view target_names[] = {"none", "number", "single"};
constexpr EnumNames names_of(TargetKind) { return target_names; }

/// A key of an experiment file, such as "scheme.ps.servers", with its value as text.
struct Setting {
  std::string key, value;
  bool operator==(const Setting&) const = default;
};

Fields fields_of(Setting& setting);

/// The quantity of a published figure. GB are 1e9 bytes, of the worker with the largest peak of
/// memory, at that peak.
enum class Measure : std::uint8_t {
  step_ms,
  samples_per_s,
  times,         // the samples a second, divided by those of another case at the same world
  speed_up,      // the samples a second, divided by those of this case, or of another, at world 1
  hours,         // for so many samples
  parameter_gb,  // of parameters
  state_gb,      // of parameters, gradients and optimizer state, with master values
  peak_gb        // of everything
};
inline constexpr std::string_view measure_names[] = {
    "step ms",          "samples/s",          "times",     "speed-up", "hours",
    "GB of parameters", "GB of model states", "GB at peak"};
constexpr EnumNames names_of(Measure) { return measure_names; }
inline constexpr std::size_t measures = std::size(measure_names);

/// One published figure of a run like this one.
struct Published {
  Measure measure = Measure::step_ms;
  double value = 0;
  std::string over{};        // label of the other case of a ratio; empty for a speed-up: this case
  std::int64_t samples = 0;  // Measure::hours: how many samples take so long
  bool fitted = false;       // a parameter was chosen to match this figure: no prediction
  /// The reason why the figure cannot be right, or cannot be of this model, with the arithmetic:
  /// one sentence; empty if there is none.
  std::string contradiction{};
  bool operator==(const Published&) const = default;
};

Fields fields_of(Published& published);

}  // namespace ringside
