// The tables of a sweep: samples/s of every line, value by value of one key.
#pragma once

#include <string>
#include <vector>

#include "experiments/report/report.h"

namespace ringside {

/// samples/s for one value of the swept key after the other, of one world.
struct SweepTable {
  std::string key;    // the swept key with the most values
  std::string fixed;  // the other swept keys with their values, and the world: "world 8"
  std::vector<std::string> values;
  struct Line {
    std::string family;
    std::vector<double> samples_per_s;  // for each value; negative if there is no figure
    /// Whether the figure may be ranked: not that of an algorithm of its own, of another training
    /// run, or of ranks that share a device.
    std::vector<bool> ranked;
    bool own_algorithm = false;
  };
  std::vector<Line> lines;
  /// For each value, the index of the fastest line; -1 if no line has a figure that may be ranked.
  std::vector<int> fastest;
};

/// Returns a table for each world and each combination of values of the other swept keys; none
/// without a sweep. `single` stands in every table. References and runs on all cores are left out;
/// a line whose scheme does not have a swept key has the same figure for all values of the key.
std::vector<SweepTable> sweep_of(const std::vector<CaseSummary>& cases);

/// The tables in Markdown, the fastest of each column in bold, and below each table the values
/// between which the fastest line changes. Empty without a sweep.
std::string sweep_tables(const std::vector<CaseSummary>& cases);

}  // namespace ringside
