// Runs that something disturbed are made again.
#pragma once

#include <string>
#include <vector>

#include "core/observe/row.h"

namespace ringside {

/// How many of `rows` are attempts at the run.
int attempts(const std::vector<Row>& rows, const std::string& run);

/// Whether the run need not be made again: it failed, an attempt was quiet, or there were `most`.
bool settled(const std::vector<Row>& rows, const std::string& run, int most);

/// For every run that `rows` have attempts at, the attempt that counts, in the order in which runs
/// appear: one that failed, else the one that was disturbed least, the first of equals. They point
/// into `rows`.
std::vector<const Row*> rows_that_count(const std::vector<Row>& rows);

}  // namespace ringside
