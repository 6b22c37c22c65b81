// Pictures of a simulated schedule, as papers draw them: a lane a rank, time to the right.
#pragma once

#include <cstddef>
#include <string>

#include "core/pipeline/simulation.h"

namespace ringside::pipeline {

/// For terminals: "F3" stands where the forward of micro-batch 3 begins, and dashes last until its
/// end. A column is as long as the shortest action. Letters in lower case are those of the second
/// stage of a rank, the fourth, and so on. Lines have at most `columns` characters; what does not
/// fit is cut off, and the last line says so.
std::string picture_text(const Schedule& schedule, const SimulatedSchedule& times,
                         std::size_t columns = 100);

/// A whole SVG file: boxes with the numbers of micro-batches, colours by operation, a legend, and
/// each action with its times under the pointer. Stages that picture_text() writes in lower case
/// are pale. It follows the reader's theme, light or dark.
std::string picture_svg(const Schedule& schedule, const SimulatedSchedule& times);

}  // namespace ringside::pipeline
