// Small runs on GPUs.
#pragma once

#include "tests/schemes/tiny_runs.h"

namespace ringside::testing {

/// A configuration of a very small model, which still has several units, and shards that need
/// padding. It is so small because these tests also run with CUDA on the host, where a kernel takes
/// a thousand times as long as on a GPU.
inline runner::ExperimentConfig tiny_on_gpus(const std::string& model) {
  runner::ExperimentConfig config = tiny(model);
  config.device.kind = "cuda";
  config.model = {
      .kind = model, .layers = 1, .heads = 2, .width = 10, .context = 5, .vocabulary = 23};
  config.data = {};
  config.data.kind = "synthetic";
  config.train.steps = 3;
  config.train.global_batch = 12;
  return config;
}

}  // namespace ringside::testing
