// Which attempts at a run count: a run that other work disturbed is made again.
#pragma once

#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// How many of `rows` are attempts at the run with id `run`.
int attempts(const std::vector<Row>& rows, const std::string& run);

/// Whether the run need not be made again. That is so if it failed, if an attempt was undisturbed,
/// or if `most` attempts were made.
bool finished(const std::vector<Row>& rows, const std::string& run, int most);

/// Returns the attempt that counts for every run in `rows`, in the order in which the runs appear.
/// If an attempt failed, it counts; otherwise the attempt that was disturbed least, and of equal
/// attempts the first. The pointers point into `rows`.
std::vector<const Row*> rows_that_count(const std::vector<Row>& rows);

}  // namespace ringside
