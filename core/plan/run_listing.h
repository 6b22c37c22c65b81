// RunListing: the names, the place and the targets of a run in the tables of a comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/fields.h"
#include "core/base/named_enum.h"

namespace ringside {

/// The held-out loss to which a comparison measures the time of each run.
enum class TargetKind : std::uint8_t {
  none,
  number,  // RunListing::target_loss
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

/// The part of a run's plan that only tables and reports read.
struct RunListing {
  std::string label;         // "ddp", "ps (servers=2)": the run's name in tables, beside its world
  std::string family;        // the label without what a sweep sets: runs of one family form a curve
  std::vector<Setting> set;  // the settings of the run's case, without those of the sweep
  std::vector<Setting> swept;  // the settings of the sweep
  std::vector<Published> published;
  /// The line of the comparison's tables that shows this run, its repeats and the same runs with
  /// other seeds.
  int line = 0;
  int place = 0;        // position in the order in which the comparison makes its runs
  bool quick = false;   // --quick: made once, whether or not other work disturbed it
  bool seeded = false;  // compare.seeds names the run's seed, which then stands in the id
  TargetKind target_kind = TargetKind::none;
  double target_loss = 0;
  bool operator==(const RunListing&) const = default;
};

}  // namespace ringside
