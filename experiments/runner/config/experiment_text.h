// The text of an experiment file, as experiments/runner/config/experiment_file.cc reads it.
#pragma once

#include <string>

#include "experiments/runner/config/config.h"

namespace ringside::runner {

/// The text of an experiment file from which read_experiment() makes `experiment`, with all keys
/// whose values are not the defaults, and with its cases; `comment` stands at its head. Paths are
/// written as they are, absolute. The experiment has no sweep.
std::string experiment_text(const Experiment& experiment, const std::string& comment);

}  // namespace ringside::runner
