// Small runs on GPUs.
#pragma once

#include "tests/schemes/tiny_runs.h"

namespace ringside::testing {

/// As small as still has several units and shards that need padding: a kernel on the host takes a
/// thousand times as long as on a GPU.
inline ExperimentConfig tiny_on_gpus(const std::string& model) {
  ExperimentConfig config = tiny(model);
  config.device.kind = "cuda";
  config.model = {
      .kind = model, .layers = 1, .heads = 2, .width = 10, .context = 5, .vocabulary = 23};
  config.data = {};
  config.data.kind = "synthetic";
  config.train.global_batch = 12;
  return config;
}

}  // namespace ringside::testing
