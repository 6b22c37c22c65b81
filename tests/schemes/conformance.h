// The conformance of a scheme, for tests that run it themselves.
#pragma once

#include "experiments/tools/check/violations.h"
#include "tests/schemes/tiny_runs.h"

namespace ringside::testing {

using tools::check::busiest;
using tools::check::lost_parameters;
using tools::check::missing_traffic;
using tools::check::Violations;
using tools::check::violations;
using tools::check::wrong_evaluations;
using tools::check::wrong_losses;
using tools::check::wrong_parameters;

/// A run with two micro-batches on each rank.
inline runner::ExperimentConfig accumulating() {
  auto config = tiny("mlp");
  config.train.accumulation = 2;
  return config;
}

/// A run with evaluations after steps 2, 4 and 5.
inline runner::ExperimentConfig evaluating() {
  auto config = tiny("gpt");
  config.train.evaluate_every = 2;
  config.train.evaluate_batches = 2;
  return config;
}

}  // namespace ringside::testing
