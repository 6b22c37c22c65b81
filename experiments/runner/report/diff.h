// The difference of two results folders, case by case: changed speeds, and everything else that
// changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/named_enum.h"
#include "experiments/runner/report/surroundings.h"
#include "experiments/runner/results/saved_results.h"

namespace ringside::runner {

/// The rule for a change of speed: at least `threshold`, shown with `confidence`.
struct DiffRule {
  double threshold = 0.03;   // a share: 0.03 are 3%
  double confidence = 0.95;  // of all rows together
};

enum class SpeedChange : std::uint8_t {
  slower,        // a regression: shown, and by the threshold or more
  faster,        // likewise
  below,         // shown, but by less than the threshold
  none,          // not shown
  too_few,       // no difference could be shown with so few repeats, however large
  not_compared,  // a side has no finished repeat, or ranks share a device
};
inline constexpr std::string_view speed_change_names[] = {
    "slower", "faster", "below the threshold", "no change", "too few repeats", "not compared"};
constexpr EnumNames names_of(SpeedChange) { return speed_change_names; }

/// The speed of one row in both folders.
struct SpeedDiff {
  std::string label;
  int world = 1;
  /// The row whose samples/s, in the same repeat, divide those of this row: a disturbance that
  /// slows down all runs of a repeat cancels out. Empty: the figures are samples/s.
  std::string relative_to;
  std::vector<double> a, b;  // one figure for each repeat that counts
  double median_a = 0, median_b = 0;
  /// The share by which the figures of `b` are larger: the median of all quotients, less 1; and its
  /// interval at the rule's confidence, for this row alone.
  double change = 0;
  std::optional<double> low, high;
  /// The p of the rank test (mann_whitney()), and the same corrected for the number of rows
  /// (holm()); both are 0 or 1 for simulated rows, whose times do not vary.
  double p = 1, corrected_p = 1;
  bool exact = true;  // RankTest::exact
  bool simulated = false;
  int disturbed = 0;  // repeats of both sides that other work disturbed in every attempt
  SpeedChange outcome = SpeedChange::none;
};

Fields fields_of(SpeedDiff& diff);

/// A figure that does not vary from repeat to repeat, or hardly, and that has changed. Where it
/// varies, it has changed if all its values on one side are larger than all on the other.
struct ValueDiff {
  std::string label;
  int world = 1;
  std::string what;  // "peak memory", "bytes sent", "training loss", "held-out loss", "proof",
                     // "finished repeats"
  std::string a, b;
  std::optional<double> change;  // a share; none if the value is no number
  /// More memory or bytes by the threshold or more; a proof that is lost; runs that fail.
  bool regression = false;
};

Fields fields_of(ValueDiff& diff);

struct Diff {
  std::string a, b;  // the folders
  DiffRule rule;
  std::vector<std::string> complaints;  // of both folders (SavedResults::complaints)
  std::vector<Difference> environment, configuration;
  std::vector<SpeedDiff> speeds;            // the worst first
  std::vector<ValueDiff> values;            // likewise
  std::vector<std::string> only_a, only_b;  // names of rows that the other folder does not have
};

Fields fields_of(Diff& diff);

/// Compares all rows but references. Throws Error if no row stands in both folders.
Diff make_diff(const SavedResults& a, const SavedResults& b, const DiffRule& rule);

/// Whether anything in the diff is a regression.
bool regressed(const Diff& diff);

/// The differences of environment and configuration; tables of speeds and of other changes; and a
/// sentence with the verdict.
std::string diff_text(const Diff& diff);

}  // namespace ringside::runner
