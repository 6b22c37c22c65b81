// The lines of two folders' tables, for a diff.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "experiments/runner/report/diff.h"
#include "experiments/runner/report/report.h"

namespace ringside::runner {

/// One row of a folder's tables, and the runs that count for it.
struct ComparedLine {
  CaseSummary summary;
  std::vector<const RunRecord*> finished;
};

using LineName = std::tuple<std::string, int, Purpose>;  // label, world
using Lines = std::vector<std::pair<LineName, ComparedLine>>;

/// The lines of the folder's tables but those of references, in the order of the tables. They point
/// into `results`.
Lines lines_of(const SavedResults& results);

/// Compares the speeds of a line that stands in both folders; `all_a` and `all_b` have the lines of
/// `single` by which speeds are divided. Leaves the outcome open.
SpeedDiff compare_speed(const ComparedLine& a, const Lines& all_a, const ComparedLine& b,
                        const Lines& all_b, const DiffRule& rule);
/// Decides the outcomes of all comparisons together: the more there are, the more of them differ by
/// chance.
void decide(std::vector<SpeedDiff>& speeds, const DiffRule& rule);

/// Adds to `out` the changes, other than of speed, of a line that stands in both folders.
void add_values(const ComparedLine& a, const ComparedLine& b, const DiffRule& rule,
                std::vector<ValueDiff>& out);

}  // namespace ringside::runner
