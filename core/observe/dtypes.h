// The dtypes of a run, spelled out.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/plan/train_config.h"

namespace ringside {

/// Names the dtype of parameters, of gradients, of what ranks send, of sums over ranks, of master
/// values and of moments.
nlohmann::ordered_json dtypes_json(const TrainConfig& train);

}  // namespace ringside
