// Meshes and models with which tests try pipelines.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "tests/schemes/tiny_runs.h"

namespace ringside::testing {

/// A run of data x pipeline workers.
struct TriedMesh {
  std::string scheme = "ddp";
  std::string schedule = "1f1b";
  int pipeline = 2, data = 1;
  std::int64_t chunks = 0;  // as the schedule has

  int world() const { return pipeline * data; }
};

inline void PrintTo(const TriedMesh& mesh, std::ostream* out) {
  *out << fmt::format("{} {} {}x{}", mesh.scheme, mesh.schedule, mesh.data, mesh.pipeline);
}

/// `layers` + 2 units, and 8 micro-batches of a worker.
inline runner::ExperimentConfig gpt_of_stages(std::int64_t layers, std::int64_t steps) {
  runner::ExperimentConfig config = tiny("gpt");
  config.model.layers = layers;
  config.model.width = 16;
  config.train.steps = steps;
  config.train.global_batch = 32;
  config.train.accumulation = 8;
  config.train.reduce = Reduce::last;  // as `single` adds up
  return config;
}

}  // namespace ringside::testing
