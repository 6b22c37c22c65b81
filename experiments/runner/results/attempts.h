// The attempts at a run, and the one that counts: a run that other work disturbed is repeated.
#pragma once

#include <string>
#include <vector>

#include "core/observe/run_record.h"

namespace ringside::runner {

/// The number of attempts at the run with id `run` among `rows`.
int attempts(const std::vector<RunRecord>& rows, const std::string& run);

/// Whether the run need not be made again. That is so if it failed, if an attempt was undisturbed,
/// or if `most` attempts were made.
bool finished(const std::vector<RunRecord>& rows, const std::string& run, int most);

/// Returns one record for each run in `rows`: that of the attempt that counts. If an attempt
/// failed, that one counts; otherwise the attempt that was disturbed least, or the first of several
/// that were disturbed equally little. Runs keep the order in which they first appear. The pointers
/// point into `rows`.
std::vector<const RunRecord*> rows_that_count(const std::vector<RunRecord>& rows);

}  // namespace ringside::runner
