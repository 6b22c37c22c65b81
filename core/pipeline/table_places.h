// Table places: when a stage takes its part of the gradient of a table that two stages read.
#pragma once

#include <cstddef>
#include <vector>

#include "core/pipeline/schedule.h"

namespace ringside::pipeline {

/// A parameter of stage `owner` that a later stage, `reader`, reads as well.
struct SharedTable {
  int owner = 0, reader = 0;
};

/// When the owner's rank adds up the table's gradient of one micro-batch.
struct TablePlace {
  std::size_t own = 0;     // the index of the owner's B or W among the actions of its rank
  std::size_t before = 0;  // the index of the action before which it takes the reader's part
  bool is_late() const { return before > own; }
};

/// Of each micro-batch. The reader's part is made in the reader's own B or W, which a schedule
/// without bubbles places behind that of the owner, so an owner that waited for it would undo the
/// schedule, or wait for ever. So the table's gradient is added up in the owner's B or W only if
/// the reader's part has been made three actions' time before (F, I and W of a micro-batch), for
/// its way; else before the first action that begins so much later. Where readers make parts faster
/// than that, as at the step's end, each has one action's time, and the owner adds them up one
/// after the other between its own actions. Places ascend with micro-batches, and so do the sums.
///
/// They follow from the schedule alone, with F, I and W that take equally long: workers with the
/// same stages have the same places, and the order of all waits is that of a simulated time, so no
/// ranks wait for each other in a circle. The schedule passes check().
std::vector<TablePlace> table_places(const Schedule& schedule, const SharedTable& table);

}  // namespace ringside::pipeline
