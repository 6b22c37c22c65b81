// The tables of a sweep: samples/s of every case, or its time to loss, for each value of one key.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/named_enum.h"
#include "experiments/runner/report/report.h"
#include "experiments/runner/report/text_table.h"

namespace ringside::runner {

/// The quantity that a table shows. Seconds until the held-out loss reaches its target
/// (TimeToLoss::seconds) rank algorithms of their own too; samples/s do not, because the samples of
/// another algorithm train another model.
enum class SweepQuantity : std::uint8_t { samples_per_s, seconds_to_loss };
inline constexpr std::string_view sweep_quantity_names[] = {"samples/s", "seconds to loss"};
constexpr EnumNames names_of(SweepQuantity) { return sweep_quantity_names; }

/// One quantity for one value of the swept key after the other, of one world.
struct SweepTable {
  int number = 1;  // counted over the tables of a comparison
  SweepQuantity quantity = SweepQuantity::samples_per_s;
  std::string key;  // the swept key
  /// Whether the key is the first of the keys with the most values. Texts have the tables of that
  /// key alone; the tables of other keys hold the same figures and are only drawn.
  bool longest = true;
  std::string fixed;  // the other swept keys with their values, and the world: "world 8"
  int world = 1;
  std::map<std::string, std::string> others;  // the values of the other swept keys
  std::vector<std::string> values;
  struct Line {
    std::string family;
    std::vector<double> figures;  // for each value; negative if there is none
    /// Whether the figure may be ranked: not that of another training run, or of ranks that share a
    /// device, nor samples/s of an algorithm of its own.
    std::vector<bool> ranked;
    bool own_algorithm = false;
  };
  std::vector<Line> lines;
  /// For each value, the indices of the lines that may be the fastest: the one with most samples/s,
  /// or fewest seconds, and those that the comparison does not tell apart from it (told_apart(),
  /// told_apart_in_time()), in the order of the lines. None if no line has a figure that may be
  /// ranked, and if that one was measured once.
  std::vector<std::vector<int>> leading;
  /// The index of the fastest line at the value; -1 unless exactly one line leads.
  int fastest(std::size_t value) const {
    return leading[value].size() == 1 ? leading[value].front() : -1;
  }
};

/// Between two values, one after the other among those that have a fastest line, another line
/// becomes the fastest.
struct Crossover {
  std::size_t after = 0, before = 0;  // positions of the values
  std::size_t from = 0, to = 0;       // positions of the lines
};
std::vector<Crossover> crossovers(const SweepTable& table);

/// Returns a table for each world and each combination of values of the other keys: of the key with
/// the most values, then of every other key that has several; none without a sweep. Tables of
/// samples/s come first, then those of seconds to loss, if a case has reached its target.
/// `single` stands in every table. References and runs on all cores are left out; a line whose
/// scheme does not have a swept key has the same figure for all values of the key.
std::vector<SweepTable> sweep_of(const std::vector<CaseSummary>& cases);

/// The lines of the table, the fastest of each column in bold as Markdown has it.
std::vector<TableLine> sweep_lines(const SweepTable& table);
/// "Fastest: dp at 1; dp or ddp at 10 (not told apart); ddp from 25 on."; empty if nothing can be
/// ranked.
std::string changes_text(const SweepTable& table);
/// The tables in Markdown, each with its changes below. Empty without a sweep.
std::string sweep_tables(const std::vector<CaseSummary>& cases);

/// With numbers for values that are numbers.
nlohmann::ordered_json to_json(const SweepTable& table);

}  // namespace ringside::runner
